package aggregate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// EnqueueFunc leaves word, in the transaction that changed a user's totals, that boards must follow.
type EnqueueFunc func(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, version int64) error

// Changed is which sessions of a user came and went in a transaction.
type Changed struct {
	Made    []uuid.UUID // they are new
	Merged  []Merge
	Deleted []uuid.UUID // nothing is left of them
}

// Merge is sessions that became part of another one, to which what they had belongs from now on.
type Merge struct {
	Heir     uuid.UUID
	Absorbed []uuid.UUID
}

// AttachedFunc does what another domain must do about what it keeps of sessions, in the transaction that changes them and
// after their rows were. The database handle may queue statements instead of running them: they must not want a result.
type AttachedFunc func(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, c Changed) error

// lockFunc takes a user's writer lock for the rest of the transaction and says whether it got it.
type lockFunc func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (bool, error)

// Finalizer turns the ended runs of one user at a time into sessions. It is safe for concurrent use, also of the same
// user: whoever does not get the user's writer lock leaves the user alone.
type Finalizer struct {
	enqueue  EnqueueFunc
	attached []AttachedFunc
	newID    func() uuid.UUID
	lock     lockFunc
	queries  *dbsqlc.Queries
}

// NewFinalizer makes a Finalizer that announces changed totals through enqueue, and sessions to what is attached to them.
func NewFinalizer(enqueue EnqueueFunc, attached ...AttachedFunc) *Finalizer {
	return &Finalizer{enqueue: enqueue, attached: attached, newID: uuid.New, queries: dbsqlc.New(), lock: store.TryWriterLock}
}

// Result is what finalizing a user did.
type Result struct {
	Locked   bool  // somebody else has the user: nothing was done
	Sessions int   // sessions written, new or replaced
	Events   int   // hot events used, copies included
	Seconds  int64 // by how much the user's all-time total moved
}

// lightEvents is how many events, hot ones and those of the sessions they touch, finalizing a user may take without
// further ado. Whoever has more could cost the process its memory, and is finalized only after that was written down.
const lightEvents = 50_000

// requestEvents is as many for a finalize inside a request, which must leave the rest of its transaction time: so few
// cost a fraction of a second, whatever is in them.
const requestEvents = 10_000

// Finalize finalizes what has ended of a user, in a transaction of its own. now replaces Postgres's clock for the
// decision which runs have ended; nil leaves it to Postgres.
func (f *Finalizer) Finalize(ctx context.Context, db store.Beginner, userID uuid.UUID, now *time.Time) (Result, error) {
	return f.finalize(ctx, db, userID, now, lightEvents)
}

func (f *Finalizer) finalize(ctx context.Context, db store.Beginner, userID uuid.UUID, now *time.Time, maxEvents int) (Result, error) {
	var res Result
	err := store.WithTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		got, err := f.lock(ctx, tx, userID)
		if err != nil {
			return fmt.Errorf("lock user: %w", err)
		}
		if !got {
			res.Locked = true
			return nil
		}
		res, err = f.finalizeTx(ctx, tx, userID, now, maxEvents)
		return err
	})
	return res, err
}

// FinalizeTx is Finalize inside a request, in a transaction of the caller, who holds the user's writer lock and took it by
// an earlier statement. It refuses a user with a great many events, before it reads any of them: see DropOpenTx.
func (f *Finalizer) FinalizeTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, now *time.Time) (Result, error) {
	n, err := f.queries.FinalizeCountEvents(ctx, tx, userID, requestEvents+1)
	if err != nil {
		return Result{}, fmt.Errorf("count events: %w", err)
	}
	if n > requestEvents {
		return Result{}, errHeavy
	}
	return f.finalizeTx(ctx, tx, userID, now, requestEvents)
}

func (f *Finalizer) finalizeTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, now *time.Time, maxEvents int) (res Result, err error) {
	defer func() {
		// A panic on the way is a failure of this user's data like any other. What panicked could quote data: the error
		// says only where.
		if recover() != nil {
			err = &panicError{stack: debug.Stack()}
		}
	}()
	user, err := f.queries.FinalizeGetUser(ctx, tx, now, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Result{}, f.queries.FinalizeDeleteUnowned(ctx, tx, userID)
	}
	if err != nil {
		return Result{}, fmt.Errorf("read user: %w", err)
	}
	hot, err := f.readHot(ctx, tx, userID, maxEvents)
	if err != nil {
		return Result{}, err
	}
	deleted := stretches(user.DeletedFirstS, user.DeletedLastS)
	sel := hot.ended(user.NowS, deleted)
	if user.Privacy != activity.ModeFull {
		// The mode change erased what was stored, under this lock; nothing should be left to strip.
		for i := range sel.events {
			sel.events[i].StripPrivate()
		}
	}
	win, err := f.readWindow(ctx, tx, userID, sel.runs, maxEvents-len(hot.events))
	if err != nil {
		return Result{}, err
	}
	win.zones, win.deleted = zonesOf(user), deleted
	p, err := makePlan(win, sel.events, f.newID)
	if err != nil {
		return Result{}, err
	}
	w := f.writer(tx, userID)
	if err := w.replace(ctx, user, &p); err != nil {
		return Result{}, err
	}
	if err := w.use(ctx, hot, sel, user.FailedBefore); err != nil {
		return Result{}, err
	}
	return Result{Sessions: len(p.sessions), Events: len(sel.seqs), Seconds: allTime(p.deltas)}, nil
}

// readHot reads the marks first: the events that a mark stands for were committed with it, so the later read of the
// events, with its own snapshot, contains them.
func (f *Finalizer) readHot(ctx context.Context, tx pgx.Tx, userID uuid.UUID, maxEvents int) (*hotSet, error) {
	marks, err := f.queries.FinalizeGetHotRuns(ctx, tx, userID)
	if err != nil {
		return nil, fmt.Errorf("read hot runs: %w", err)
	}
	hot := &hotSet{marks: marks}
	rows, err := tx.Query(ctx, dbsqlc.FinalizeGetEvents, userID, int64(min(maxEvents, math.MaxInt-1))+1)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	if err := hot.scan(rows, maxEvents); err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return hot, nil
}

// scan reads rows of FinalizeGetEvents one by one. A session's events name the same few files and languages over and
// over: each text is kept once, whatever the length of the session. It fails with errHeavy beyond max events.
func (h *hotSet) scan(rows pgx.Rows, maxEvents int) error {
	texts := make(map[string]string)
	intern := func(b []byte) string {
		if s, ok := texts[string(b)]; ok { // does not allocate
			return s
		}
		s := string(b)
		texts[s] = s
		return s
	}
	var e activity.Event
	var seq int64
	var lang, project, file, keyFreq pgtype.DriverBytes
	targets := []any{&seq, &e.ID, &e.TS, &lang, &e.Keystrokes, &e.Lines, &project, &file, &keyFreq}
	_, err := pgx.ForEachRow(rows, targets, func() error {
		if len(h.events) == maxEvents {
			return errHeavy
		}
		e.Lang, e.Project, e.File, e.KeyFreq = intern(lang), intern(project), intern(file), intern(keyFreq)
		h.events = append(h.events, e)
		h.seqs = append(h.seqs, seq)
		return nil
	})
	return err
}

// readWindow reads what stands where the runs touch: the sessions with an event within the idle time of one. It fails
// with errHeavy when they have more than maxEvents.
func (f *Finalizer) readWindow(ctx context.Context, tx pgx.Tx, userID uuid.UUID, runs []stretch, maxEvents int) (*window, error) {
	win := &window{}
	if len(runs) == 0 {
		return win, nil
	}
	args := dbsqlc.FinalizeGetTouchedSessionsParams{UserID: userID}
	for _, r := range runs {
		args.Firsts = append(args.Firsts, r.first)
		args.Lasts = append(args.Lasts, r.last)
	}
	touched, err := f.queries.FinalizeGetTouchedSessions(ctx, tx, args)
	if err != nil {
		return nil, fmt.Errorf("read touched sessions: %w", err)
	}
	if len(touched) == 0 {
		return win, nil
	}
	ids := make([]uuid.UUID, len(touched))
	known := int64(0)
	for i, t := range touched {
		ids[i] = t.ID
		known += t.Events
		win.sessions = append(win.sessions, standing{t.ID, stretch{t.StartedS + activity.WindowSeconds, t.EndedS}})
	}
	if known > int64(maxEvents) {
		return nil, fmt.Errorf("read touched sessions: %w", errHeavy)
	}
	if win.events, err = f.readArchives(ctx, tx, userID, ids); err != nil {
		return nil, err
	}
	if win.seconds, err = f.readSeconds(ctx, tx, userID, ids); err != nil {
		return nil, err
	}
	return win, nil
}

// readSeconds adds up the seconds of sessions.
func (f *Finalizer) readSeconds(ctx context.Context, tx pgx.Tx, userID uuid.UUID, ids []uuid.UUID) (map[DayLang]int64, error) {
	rows, err := f.queries.FinalizeGetSeconds(ctx, tx, userID, ids)
	if err != nil {
		return nil, fmt.Errorf("read session seconds: %w", err)
	}
	seconds := make(map[DayLang]int64, len(rows))
	for _, r := range rows {
		seconds[DayLang{r.Day, r.Lang}] = r.Seconds
	}
	return seconds, nil
}

// readArchives reads the events of sessions that are to be rebuilt. Each of them must have an archive: to rebuild a
// session from new events alone would lose the old ones.
func (f *Finalizer) readArchives(ctx context.Context, tx pgx.Tx, userID uuid.UUID, ids []uuid.UUID) ([]activity.Event, error) {
	rows, err := f.queries.FinalizeGetArchives(ctx, tx, userID, ids)
	if err != nil {
		return nil, fmt.Errorf("read archives: %w", err)
	}
	var events []activity.Event
	found := make(map[uuid.UUID]bool, len(ids))
	for i := range rows {
		found[rows[i].SessionID] = true
		events, err = decodeChunk(events, chunk{rows[i].Events, rows[i].Details})
		if err != nil {
			return nil, err
		}
	}
	if len(found) != len(ids) {
		return nil, fmt.Errorf("rebuild session: %w", errArchiveGone)
	}
	return events, nil
}

func zonesOf(u dbsqlc.FinalizeGetUserRow) Zones {
	zones := make(Zones, len(u.ZoneFromS))
	for i := range zones {
		zones[i] = ZoneChange{u.ZoneFromS[i], u.ZoneNames[i]}
	}
	return zones
}

func stretches(firsts, lasts []int64) []stretch {
	out := make([]stretch, len(firsts))
	for i := range out {
		out[i] = stretch{firsts[i], lasts[i]}
	}
	return out
}

func allTime(deltas []totalDelta) int64 {
	for _, d := range deltas {
		if d.span.Period == calendar.PeriodAllTime && d.lang == "" {
			return d.seconds
		}
	}
	return 0
}
