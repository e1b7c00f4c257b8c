package ingest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// run is a stretch of a batch's event seconds without a gap over the idle time, both ends included.
type run struct{ first, last int64 }

// runsOf finds the runs of a batch. Each becomes a row that tells the scanner where the user has events.
func runsOf(events []activity.Event) []run {
	seconds := make([]int64, len(events))
	for i := range events {
		seconds[i] = events[i].Second()
	}
	slices.Sort(seconds)
	var runs []run
	for i, s := range seconds {
		if i == 0 || s-seconds[i-1] > activity.IdleSeconds {
			runs = append(runs, run{first: s})
		}
		runs[len(runs)-1].last = s
	}
	return runs
}

// horizonSlack is how far behind the horizon that was seen last, in seconds, the present one is taken to be. Only events
// before that are worth the statement that counts the refused ones.
const horizonSlack = 2 * 24 * 60 * 60

// flusher writes commit groups, one at a time. Its argument slices are reused from group to group.
type flusher struct {
	w       *Writer
	queries *dbsqlc.Queries
	locks   []int64
	users   []uuid.UUID
	events  dbsqlc.IngestInsertEventsParams
	runs    dbsqlc.IngestInsertHotRunsParams
	refused dbsqlc.IngestInsertRejectionsParams
	tooOld  dbsqlc.IngestInsertTooOldParams
}

func newFlusher(w *Writer) *flusher { return &flusher{w: w, queries: dbsqlc.New()} }

// drain writes groups until nobody has a turn.
func (f *flusher) drain(ctx context.Context) {
	for {
		group := f.w.queue.pop(f.w.cfg.GroupUsers, f.w.cfg.GroupEvents)
		if len(group) == 0 {
			return
		}
		f.write(ctx, group)
	}
}

// finish writes what still waits when the writer stops, locked users included: their requests end by their own bounds.
func (f *flusher) finish(ctx context.Context) {
	pause := time.NewTicker(f.w.cfg.LockedPause)
	defer pause.Stop()
	for f.drain(ctx); !f.w.queue.drained(); f.drain(ctx) {
		<-pause.C
	}
}

// write stores a group and answers its requests, or sees to it that they are.
func (f *flusher) write(ctx context.Context, group []*request) {
	locked, err := f.store(ctx, group)
	switch {
	case err == nil:
		for _, r := range locked {
			f.w.again(r)
		}
	case len(group) > 1 && !store.IsUnavailable(err):
		// Something about one of them failed all. Alone, each gets what is its own.
		f.w.log.WarnContext(ctx, "commit group failed, its requests are tried one by one", "sqlstate", store.SQLState(err), "requests", len(group))
		for _, r := range group {
			if r.ctx.Err() == nil {
				f.write(ctx, []*request{r})
			}
		}
	default:
		for _, r := range group {
			r.answer(Stored{}, err)
		}
	}
}

// store writes a group in one pipeline, which is one transaction, and answers its requests. It returns those whose user
// is locked, unanswered; after an error none is answered. The transaction outlives the writer's context: what was taken
// from the queue is stored, within a time of its own.
func (f *flusher) store(ctx context.Context, group []*request) (locked []*request, err error) {
	f.gather(group)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.w.cfg.StoreTimeout)
	defer cancel()

	var door dbsqlc.IngestLockUsersRow
	modes := make(map[int32]Stored, len(group))
	var pipe store.Pipeline
	pipe.QueueRow(dbsqlc.IngestLockUsers, func(row pgx.Row) error { return row.Scan(&door.Admitted, &door.HorizonS) }, f.locks)
	pipe.QueueRows(dbsqlc.IngestGetUsers, func(rows pgx.Rows) error {
		var pos int32
		var s Stored
		_, err := pgx.ForEachRow(rows, []any{&pos, &s.Mode, &s.Version}, func() error {
			modes[pos] = s
			return nil
		})
		return err
	}, f.users)
	if err := f.insert(ctx, &pipe); err != nil {
		return nil, err
	}
	if err := pipe.SendTx(ctx, f.w.pool); err != nil {
		return nil, fmt.Errorf("store events: %w", err)
	}
	f.w.horizon.Store(door.HorizonS)
	return f.answer(group, door, modes), nil
}

func (f *flusher) insert(ctx context.Context, pipe *store.Pipeline) error {
	if len(f.events.Users) > 0 {
		if _, err := f.queries.IngestInsertEvents(ctx, pipe, f.events); err != nil {
			return err
		}
		if err := f.queries.IngestInsertHotRuns(ctx, pipe, f.runs); err != nil {
			return err
		}
	}
	if len(f.tooOld.Users) > 0 {
		if err := f.queries.IngestInsertTooOld(ctx, pipe, f.tooOld); err != nil {
			return err
		}
	}
	if len(f.refused.Users) > 0 {
		return f.queries.IngestInsertRejections(ctx, pipe, f.refused)
	}
	return nil
}

// answer tells each request what became of it. Users are counted from 1, as Postgres counts.
func (f *flusher) answer(group []*request, door dbsqlc.IngestLockUsersRow, modes map[int32]Stored) (locked []*request) {
	isAdmitted := make([]bool, len(group)+1)
	for p := range strings.SplitSeq(door.Admitted, ",") {
		if n, err := strconv.Atoi(p); err == nil && n <= len(group) {
			isAdmitted[n] = true
		}
	}
	for i, r := range group {
		stored, exists := modes[int32(i+1)]
		switch {
		case !isAdmitted[i+1]:
			locked = append(locked, r)
		case !exists:
			r.answer(Stored{}, ErrUnknownUser)
		case stored.Mode == activity.ModeOff:
			r.answer(stored, nil)
		default:
			r.batch.refuseBefore(door.HorizonS)
			stored.Received = r.batch.Received
			r.answer(stored, nil)
		}
	}
	return locked
}

// gather lays the group out in the columns that the statements take.
func (f *flusher) gather(group []*request) {
	f.locks, f.users = f.locks[:0], f.users[:0]
	e, h, x, o := &f.events, &f.runs, &f.refused, &f.tooOld
	e.Users, e.IDs, e.Ts, e.Langs, e.Listed = e.Users[:0], e.IDs[:0], e.Ts[:0], e.Langs[:0], e.Listed[:0]
	e.Keystrokes, e.Lines, e.Projects, e.Files, e.KeyFreqs = e.Keystrokes[:0], e.Lines[:0], e.Projects[:0], e.Files[:0], e.KeyFreqs[:0]
	h.Users, h.Firsts, h.Lasts = h.Users[:0], h.Firsts[:0], h.Lasts[:0]
	x.Users, x.Reasons, x.Counts = x.Users[:0], x.Reasons[:0], x.Counts[:0]
	o.Users, o.Seconds = o.Users[:0], o.Seconds[:0]
	suspect := f.w.horizon.Load() + horizonSlack
	for i, r := range group {
		pos := int32(i + 1)
		f.locks = append(f.locks, store.IngestLock(r.userID))
		f.users = append(f.users, r.userID)
		for j := range r.batch.Events {
			f.event(pos, &r.batch.Events[j], r.batch.Listed[j])
			if s := r.batch.Events[j].Second(); s < suspect {
				o.Users = append(o.Users, pos)
				o.Seconds = append(o.Seconds, s)
			}
		}
		for _, s := range r.runs {
			h.Users = append(h.Users, pos)
			h.Firsts = append(h.Firsts, s.first)
			h.Lasts = append(h.Lasts, s.last)
		}
		for reason, n := range r.batch.ByReason {
			x.Users = append(x.Users, pos)
			x.Reasons = append(x.Reasons, string(reason))
			x.Counts = append(x.Counts, int32(n))
		}
	}
	e.UserIDs, h.UserIDs, x.UserIDs, o.UserIDs = f.users, f.users, f.users, f.users
}

func (f *flusher) event(pos int32, ev *activity.Event, listed bool) {
	e := &f.events
	e.Users = append(e.Users, pos)
	e.IDs = append(e.IDs, ev.ID)
	e.Ts = append(e.Ts, ev.TS)
	e.Langs = append(e.Langs, ev.Lang)
	e.Listed = append(e.Listed, listed)
	e.Keystrokes = append(e.Keystrokes, ev.Keystrokes)
	e.Lines = append(e.Lines, ev.Lines)
	e.Projects = append(e.Projects, ev.Project)
	e.Files = append(e.Files, ev.File)
	e.KeyFreqs = append(e.KeyFreqs, ev.KeyFreq)
}
