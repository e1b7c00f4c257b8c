package engagement

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/writebehind"
)

// staleSeconds is how long a delta waits before a sweep takes it for forgotten: more than a flush takes.
const staleSeconds = 30

// errChanging means that sessions were merged time and again during a flush. It is tried again.
var errChanging = errors.New("sessions are being merged")

// Flusher brings shares, and the deltas of kudos and comments, to the counters. It is safe for concurrent use.
type Flusher struct {
	db DB
	q  *dbsqlc.Queries
}

// NewFlusher makes a Flusher over a pool.
func NewFlusher(db DB) *Flusher { return &Flusher{db: db, q: dbsqlc.New()} }

// ApplyShares adds a flush of shares, in one transaction with its id, unless that was done before. What belongs to an absorbed
// session goes to its heir; what belongs to none is dropped.
func (f *Flusher) ApplyShares(ctx context.Context, flush writebehind.Flush) error {
	return f.again(ctx, func(ctx context.Context, tx pgx.Tx) (left []uuid.UUID, err error) {
		first, err := writebehind.Once(ctx, tx, flush.ID, flush.TakenAt)
		if err != nil || !first {
			return nil, err
		}
		rows, err := f.q.EngagementAddShares(ctx, tx, flush.Records, flush.Deltas)
		if err != nil {
			return nil, fmt.Errorf("add shares: %w", err)
		}
		for _, r := range rows {
			if !r.Added {
				left = append(left, r.ID)
			}
		}
		return left, nil
	})
}

// FlushDeltas moves what is pending of sessions into their counters, in one transaction. Deltas of sessions that do not exist
// any more are dropped.
func (f *Flusher) FlushDeltas(ctx context.Context, ids []uuid.UUID) error {
	return f.again(ctx, func(ctx context.Context, tx pgx.Tx) (left []uuid.UUID, err error) {
		rows, err := f.q.EngagementFlushDeltas(ctx, tx, ids)
		if err != nil {
			return nil, fmt.Errorf("flush deltas: %w", err)
		}
		found := make(map[uuid.UUID]bool, len(ids))
		for _, r := range rows {
			found[r.ID] = true
			if !r.Flushed {
				left = append(left, r.ID)
			}
		}
		var stray []uuid.UUID
		for _, id := range ids {
			if !found[id] {
				stray = append(stray, id)
			}
		}
		if len(stray) == 0 || len(left) > 0 {
			return left, nil
		}
		return nil, f.q.EngagementDeleteStray(ctx, tx, stray)
	})
}

// again runs a transaction until it leaves no session: what it leaves was merged while it waited, or has no counters yet. It
// starts over as a whole, holding nothing: to wait for more counters while it holds some would be out of order.
func (f *Flusher) again(ctx context.Context, run func(ctx context.Context, tx pgx.Tx) (left []uuid.UUID, err error)) error {
	for range maxLooks {
		var left []uuid.UUID
		err := store.WithTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) (err error) {
			if left, err = run(ctx, tx); err == nil && len(left) > 0 {
				return errChanging
			}
			return err
		})
		if !errors.Is(err, errChanging) {
			return err
		}
		if err := f.q.EngagementInsertMissingCounters(ctx, f.db, left); err != nil {
			return fmt.Errorf("make missing counters: %w", err)
		}
	}
	return errChanging
}

// flushPage is how many sessions FlushAll flushes in one transaction.
const flushPage = 500

// FlushAll moves all that is pending when it is called into the counters.
func (f *Flusher) FlushAll(ctx context.Context) error {
	for {
		ids, err := f.q.EngagementListStale(ctx, f.db, 0, flushPage)
		if err != nil {
			return fmt.Errorf("list pending sessions: %w", err)
		}
		if len(ids) == 0 {
			return nil
		}
		if err := f.FlushDeltas(ctx, ids); err != nil {
			return err
		}
		if len(ids) < flushPage {
			return nil
		}
	}
}

// Stale lists sessions whose deltas nobody has flushed for half a minute, at most so many.
func (f *Flusher) Stale(ctx context.Context, maxSessions int) ([]uuid.UUID, error) {
	return f.q.EngagementListStale(ctx, f.db, staleSeconds, int32(maxSessions))
}
