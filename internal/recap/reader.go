package recap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/zones"
)

// ErrUnknownUser means that there is no such user.
var ErrUnknownUser = errors.New("no recap: unknown user")

// ErrBusy means that too many recaps are being read one by one. The request may be repeated later.
var ErrBusy = errors.New("too many recaps are being read")

// How many recaps Own reads at a time, and how long one waits to be read. A rank counts all who have more seconds, and
// everything else needs the pool too.
const (
	singleReads = 3
	singleWait  = time.Second
)

// DB is a pool, or a connection.
type DB interface {
	dbsqlc.DBTX
	store.Beginner
}

// Reader reads recaps from Postgres. It is safe for concurrent use.
type Reader struct {
	db    DB
	clock clock.Clock
	langs []string     // keys that have boards
	reads *store.Turns // of Own
}

// NewReader makes a Reader over a pool. languages are the keys that have boards.
func NewReader(db DB, c clock.Clock, languages []string) *Reader {
	return &Reader{db: db, clock: c, langs: languages, reads: store.NewTurns(singleReads, singleWait)}
}

// Addressed is a recap, and where its user wants it.
type Addressed struct {
	Recap
	Email string
	// Wanted says that the user has an address and asked for the mail. Who is on off is never found.
	Wanted bool
	mode   activity.Mode // of the same snapshot
}

// Own is a user's recap of a week, for the user's own eyes, also on off. It fails with ErrUnknownUser or ErrBusy.
func (r *Reader) Own(ctx context.Context, userID uuid.UUID, w Week) (*Recap, error) {
	var found *Recap
	err := r.reads.Do(ctx, ErrBusy, func() error {
		asOf := r.clock.Now().UTC()
		return r.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
			all, err := r.read(ctx, tx, w, asOf, []uuid.UUID{userID}, true)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return ErrUnknownUser
			}
			found = &all[0].Recap
			return r.rank(ctx, tx, found, all[0].off)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read recap: %w", err)
	}
	return found, nil
}

// Of are the recaps of those of the users who were active in a week, in order of id. Users on off, and those who are gone,
// are left out.
func (r *Reader) Of(ctx context.Context, w Week, ranks *Ranks, users []uuid.UUID) ([]Addressed, error) {
	if len(users) == 0 {
		return nil, nil
	}
	asOf := r.clock.Now().UTC()
	var found []Addressed
	err := r.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		all, err := r.read(ctx, tx, w, asOf, users, false)
		if err != nil {
			return err
		}
		for _, u := range all {
			if u.Seconds > 0 {
				ranks.apply(&u.Recap)
				found = append(found, u.Addressed)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read recaps: %w", err)
	}
	return found, nil
}

// Active looks at the next n users after one, in order of id, and returns those who were active in the week and are not on
// off, and whom to go on after; more is false when there are no users left.
func (r *Reader) Active(ctx context.Context, w Week, after uuid.UUID, n int) (active []uuid.UUID, last uuid.UUID, more bool, err error) {
	rows, err := dbsqlc.New().RecapActiveAfter(ctx, r.db, dbsqlc.RecapActiveAfterParams{Week: w.Start(), After: after, MaxRows: int32(n)})
	if err != nil {
		return nil, after, false, fmt.Errorf("list active users: %w", err)
	}
	last = after
	for _, row := range rows {
		last = row.ID
		if row.Active {
			active = append(active, row.ID)
		}
	}
	return active, last, len(rows) == n, nil
}

// How many users Walk looks at per step, and reads of those who were active: what it holds in memory.
const (
	lookPage = 1000
	readPage = 200
)

// Walk calls each with the recap of every user who was active in the week and is not on off, as it is for the user's own eyes,
// in order of id, after one of them (uuid.Nil for all). A page of recaps is in memory at a time; paged, when it is not nil, is
// called after each, and after each look at users of whom nobody may have been active: never long after it was called.
func (r *Reader) Walk(ctx context.Context, w Week, after uuid.UUID, each func(*Addressed) error, paged func() error) error {
	if paged == nil {
		paged = func() error { return nil }
	}
	ranks, err := r.Ranks(ctx, w)
	if err != nil {
		return err
	}
	for more := true; more; {
		var active []uuid.UUID
		active, after, more, err = r.Active(ctx, w, after, lookPage)
		if err != nil {
			return err
		}
		if err := paged(); err != nil {
			return err
		}
		for len(active) > 0 {
			n := min(readPage, len(active))
			if err := r.walkPage(ctx, w, ranks, active[:n], each); err != nil {
				return err
			}
			if err := paged(); err != nil {
				return err
			}
			active = active[n:]
		}
	}
	return nil
}

// WalkShown is Walk for others than the users themselves: it shows the names of languages that are not listed, which are free
// text, only of who is on full, as everywhere. The seconds stay, in OtherSeconds.
func (r *Reader) WalkShown(ctx context.Context, w Week, after uuid.UUID, each func(*Addressed) error, paged func() error) error {
	return r.Walk(ctx, w, after, func(a *Addressed) error {
		if a.mode != activity.ModeFull {
			a.hideUnlisted()
		}
		return each(a)
	}, paged)
}

func (r *Reader) walkPage(ctx context.Context, w Week, ranks *Ranks, users []uuid.UUID, each func(*Addressed) error) error {
	page, err := r.Of(ctx, w, ranks, users)
	if err != nil {
		return err
	}
	for i := range page {
		if err := each(&page[i]); err != nil {
			return err
		}
	}
	return nil
}

// snapshot runs fn in a transaction that sees one state of the database.
func (r *Reader) snapshot(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, r.db, o, func(tx pgx.Tx) error { return fn(ctx, tx) })
}

// found is what one user's rows say.
type found struct {
	Addressed
	off bool
}

// read reads users in order of id, without ranks.
func (r *Reader) read(ctx context.Context, tx pgx.Tx, w Week, asOf time.Time, users []uuid.UUID, alsoOff bool) ([]*found, error) {
	rows, err := dbsqlc.New().RecapUsers(ctx, tx, dbsqlc.RecapUsersParams{Week: w.Start(), BoardLangs: r.langs, UserIDs: users})
	if err != nil {
		return nil, fmt.Errorf("read users: %w", err)
	}
	all, byID := make([]*found, 0, len(rows)), make(map[uuid.UUID]*found, len(rows))
	for i := range rows {
		u := &rows[i]
		off := u.Privacy == activity.ModeOff
		if off && !alsoOff {
			continue
		}
		f := &found{Addressed: Addressed{Recap: *newRecap(u.ID, w, asOf), mode: u.Privacy}, off: off}
		f.Handle, f.TopLang = u.Handle, u.TopLang
		f.StreakDays = calendar.StreakDays(u.StreakFirstOn, u.StreakLastOn, zones.DayAt(asOf, u.Zone))
		if u.Email != nil {
			f.Email, f.Wanted = *u.Email, u.RecapMail
		}
		all, byID[u.ID] = append(all, f), f
	}
	if len(all) == 0 {
		return nil, nil
	}
	if err := readTotals(ctx, tx, w, byID); err != nil {
		return nil, err
	}
	if err := readSessions(ctx, tx, w, byID); err != nil {
		return nil, err
	}
	for _, f := range all {
		f.close()
	}
	return all, nil
}

func keysOf(byID map[uuid.UUID]*found) []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	return ids
}

func readTotals(ctx context.Context, tx pgx.Tx, w Week, byID map[uuid.UUID]*found) error {
	q, ids := dbsqlc.New(), keysOf(byID)
	days, err := q.RecapDays(ctx, tx, dbsqlc.RecapDaysParams{UserIDs: ids, Prior: w.Previous().Start(), EndsOn: w.End()})
	if err != nil {
		return fmt.Errorf("read totals: %w", err)
	}
	for _, d := range days {
		byID[d.UserID].total(d.Period, d.StartsOn, d.Seconds)
	}
	langs, err := q.RecapLanguages(ctx, tx, dbsqlc.RecapLanguagesParams{UserIDs: ids, Week: w.Start(), MaxRows: MaxLangs})
	if err != nil {
		return fmt.Errorf("read languages: %w", err)
	}
	for _, l := range langs {
		f := byID[l.UserID]
		f.Langs = append(f.Langs, Lang{Key: l.Lang, Seconds: l.Seconds})
	}
	return nil
}

// zoneMargin is more than any zone was ever from UTC.
const zoneMargin = 24 * time.Hour

func readSessions(ctx context.Context, tx pgx.Tx, w Week, byID map[uuid.UUID]*found) error {
	rows, err := dbsqlc.New().RecapSessions(ctx, tx, dbsqlc.RecapSessionsParams{
		UserIDs: keysOf(byID), Week: w.Start(), EndsOn: w.End(),
		FromAt: w.Start().Midnight().Add(-zoneMargin), ToAt: w.End().Midnight().Add(zoneMargin),
	})
	if err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	for _, s := range rows {
		f := byID[s.UserID]
		f.Sessions, f.BestSeconds, f.BestID = s.Sessions, s.BestSeconds, s.BestID
	}
	return nil
}
