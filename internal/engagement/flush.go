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
	return store.WithTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		first, err := writebehind.Once(ctx, tx, flush.ID, flush.TakenAt)
		if err != nil || !first {
			return err
		}
		counts := make(map[uuid.UUID]int64, len(flush.Records))
		for i, id := range flush.Records {
			counts[id] += flush.Deltas[i]
		}
		return f.again(ctx, tx, flush.Records, func(ids []uuid.UUID) (left []uuid.UUID, err error) {
			ns := make([]int64, len(ids))
			for i, id := range ids {
				ns[i] = counts[id]
			}
			rows, err := f.q.EngagementAddShares(ctx, tx, ids, ns)
			for _, r := range rows {
				if !r.Added {
					left = append(left, r.ID)
				}
			}
			return left, err
		})
	})
}

// FlushDeltas moves what is pending of sessions into their counters, in one transaction. Deltas of sessions that do not exist
// any more are dropped.
func (f *Flusher) FlushDeltas(ctx context.Context, ids []uuid.UUID) error {
	return store.WithTx(ctx, f.db, func(ctx context.Context, tx pgx.Tx) error {
		found := make(map[uuid.UUID]bool, len(ids))
		err := f.again(ctx, tx, ids, func(ids []uuid.UUID) (left []uuid.UUID, err error) {
			rows, err := f.q.EngagementFlushDeltas(ctx, tx, ids)
			for _, r := range rows {
				found[r.ID] = true
				if !r.Flushed {
					left = append(left, r.ID)
				}
			}
			return left, err
		})
		if err != nil {
			return err
		}
		var stray []uuid.UUID
		for _, id := range ids {
			if !found[id] {
				stray = append(stray, id)
			}
		}
		if len(stray) == 0 {
			return nil
		}
		return f.q.EngagementDeleteStray(ctx, tx, stray)
	})
}

// again runs a statement until it leaves nothing: what it leaves was merged while it waited, or has no counters yet.
func (f *Flusher) again(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, run func(ids []uuid.UUID) (left []uuid.UUID, err error)) error {
	for range maxLooks {
		left, err := run(ids)
		if err != nil {
			return fmt.Errorf("flush counters: %w", err)
		}
		if len(left) == 0 {
			return nil
		}
		if err := f.q.EngagementInsertMissingCounters(ctx, tx, left); err != nil {
			return fmt.Errorf("make missing counters: %w", err)
		}
		ids = left
	}
	return errChanging
}

// Stale lists sessions whose deltas nobody has flushed for half a minute, at most so many.
func (f *Flusher) Stale(ctx context.Context, maxSessions int) ([]uuid.UUID, error) {
	return f.q.EngagementListStale(ctx, f.db, staleSeconds, int32(maxSessions))
}
