package aggregate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/zones"
)

// todayEvents bounds how many hot events a reading of today looks at: several days of somebody who works on many files at
// once, or the whole queue of a client, read in milliseconds. Of who has more, the newest that were stored are looked at.
const todayEvents = 20_000

// ErrUnknownUser means that there is no such user.
var ErrUnknownUser = errors.New("unknown user")

// Today is a user's local day so far.
type Today struct {
	Day       calendar.Day
	Zone      string // in force now: it decides which day today is
	Seconds   int64  // all of them, those of open runs included
	Finalized int64  // those that totals and boards have already
	// Partial says that there are too many hot events to look at all of them, so that Seconds may be less than finalizing
	// will make of them.
	Partial bool
}

// TodayReader tells what a user has coded today. It is safe for concurrent use.
type TodayReader struct {
	db      store.Beginner
	clock   clock.Clock
	queries *dbsqlc.Queries
}

// NewTodayReader is a TodayReader over a pool.
func NewTodayReader(db store.Beginner, c clock.Clock) *TodayReader {
	return &TodayReader{db: db, clock: c, queries: dbsqlc.New()}
}

// Today is what would stand of the user's present day if every run ended now and were finalized: what stands, plus what hot
// events would make of the sessions that they touch. So it never counts a second that finalizing those events would not.
//
// All is read in one snapshot, and without a lock: a finalize that commits meanwhile is seen whole or not at all. It fails with
// ErrUnknownUser.
func (r *TodayReader) Today(ctx context.Context, userID uuid.UUID) (Today, error) {
	var t Today
	err := store.WithSnapshot(ctx, r.db, func(ctx context.Context, tx pgx.Tx) (err error) {
		t, err = r.read(ctx, tx, userID, todayEvents)
		return err
	})
	if err != nil {
		return Today{}, fmt.Errorf("read today: %w", err)
	}
	return t, nil
}

func (r *TodayReader) read(ctx context.Context, tx pgx.Tx, userID uuid.UUID, maxEvents int64) (Today, error) {
	user, err := r.queries.FinalizeGetUser(ctx, tx, nil, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Today{}, ErrUnknownUser
	}
	if err != nil {
		return Today{}, fmt.Errorf("read user: %w", err)
	}
	inForce := zonesOf(user)
	now := r.clock.Now()
	t := Today{Zone: inForce.Latest()}
	t.Day = zones.DayAt(now, t.Zone)
	hot, err := r.hotSeconds(ctx, tx, userID, maxEvents, &t)
	if err != nil {
		return Today{}, err
	}
	if t.Partial && len(inForce) > 1 {
		hot = nil // the first events of a run decide its zone, and so its days: they may be among those that were not read
	}
	hot = slices.DeleteFunc(hot, func(s int64) bool { return inAny(stretches(user.DeletedFirstS, user.DeletedLastS), s) })
	touched, err := r.touched(ctx, tx, userID, hot)
	if err != nil {
		return Today{}, err
	}
	args := dbsqlc.TodayGetSecondsParams{UserID: userID, Day: t.Day, SessionIDs: make([]uuid.UUID, 0, len(touched))}
	for _, s := range touched {
		args.SessionIDs = append(args.SessionIDs, s.id)
	}
	stands, err := r.queries.TodayGetSeconds(ctx, tx, args)
	if err != nil {
		return Today{}, fmt.Errorf("read seconds of the day: %w", err)
	}
	built, err := secondsOn(t.Day, hot, touched, inForce)
	if err != nil {
		return Today{}, err
	}
	t.Finalized, t.Seconds = stands.Total, stands.Total-stands.Touched+built
	return t, nil
}

// hotSeconds are the seconds in which there are hot events. It notes in t when there are too many events.
func (r *TodayReader) hotSeconds(ctx context.Context, tx pgx.Tx, userID uuid.UUID, maxEvents int64, t *Today) ([]int64, error) {
	n, err := r.queries.FinalizeCountEvents(ctx, tx, userID, maxEvents+1)
	if err != nil {
		return nil, fmt.Errorf("count hot events: %w", err)
	}
	t.Partial = n > maxEvents
	if n == 0 {
		return nil, nil
	}
	seconds, err := r.queries.TodayGetHotSeconds(ctx, tx, userID, maxEvents)
	if err != nil {
		return nil, fmt.Errorf("read seconds of hot events: %w", err)
	}
	return seconds, nil
}

// touched are the sessions that hot events would extend or merge, as a finalize finds them.
func (r *TodayReader) touched(ctx context.Context, tx pgx.Tx, userID uuid.UUID, hot []int64) ([]standing, error) {
	if len(hot) == 0 {
		return nil, nil
	}
	args := dbsqlc.FinalizeGetTouchedSessionsParams{UserID: userID}
	for _, run := range Runs(Fold(eventsAt(hot))) {
		args.Firsts = append(args.Firsts, run[0].Second())
		args.Lasts = append(args.Lasts, run[len(run)-1].Second())
	}
	rows, err := r.queries.FinalizeGetTouchedSessions(ctx, tx, args)
	if err != nil {
		return nil, fmt.Errorf("read touched sessions: %w", err)
	}
	out := make([]standing, len(rows))
	for i, s := range rows {
		out[i] = standing{s.ID, stretch{s.StartedS + activity.WindowSeconds, s.EndedS}}
	}
	return out, nil
}

// secondsOn are the seconds of a day that sessions have which are built of hot events and of the sessions they touch, in all
// languages together.
//
// It is Build, which also makes what is finalized. Which day a second falls on depends on when events are, not on what is in
// them, and of a session that stands on its first and last one: all between lies within the idle time. So neither contents
// nor archives are read; and no session that stands has an event in a deleted stretch, for a delete takes whole sessions.
func secondsOn(day calendar.Day, hot []int64, touched []standing, inForce Zones) (n int64, err error) {
	seconds := slices.Clone(hot)
	for _, s := range touched {
		for at := s.first; at < s.last; at += activity.IdleSeconds {
			seconds = append(seconds, at)
		}
		seconds = append(seconds, s.last)
	}
	sessions, err := Build(Fold(eventsAt(seconds)), inForce)
	if err != nil {
		return 0, err
	}
	for i := range sessions {
		for k, s := range sessions[i].Seconds {
			if k.Day == day {
				n += s
			}
		}
	}
	return n, nil
}

// eventsAt are events of which nothing matters but when they are.
func eventsAt(seconds []int64) []activity.Event {
	events := make([]activity.Event, len(seconds))
	for i, s := range seconds {
		events[i].TS = s * 1000
	}
	return events
}
