package writebehind

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// DB is a pool, or a connection.
type DB interface {
	dbsqlc.DBTX
	store.Beginner
}

// ApplyFunc writes a batch in the transaction that records its flush id, and returns how many rows it wrote. It must take
// the locks of its rows in the order of their keys, and may run again after an error.
type ApplyFunc func(ctx context.Context, tx pgx.Tx, entries map[string]string) (rows int64, err error)

// RecordFunc records a flush id in the transaction that applies the batch. fresh is false when the batch was applied before.
// askedAt is when, by Postgres's clock, the batch had not been taken yet.
type RecordFunc func(ctx context.Context, tx pgx.Tx, b Batch, askedAt time.Time) (fresh bool, err error)

// Count says what a flush did.
type Count struct {
	Batches int   `json:"batches"` // applied and recorded
	Entries int   `json:"entries"` // fields of those batches
	Rows    int64 `json:"rows"`    // rows written for them, as far as the kind knows
	Known   int   `json:"known"`   // batches found to be applied already
}

func (c *Count) add(o Count) {
	c.Batches += o.Batches
	c.Entries += o.Entries
	c.Rows += o.Rows
	c.Known += o.Known
}

// Buffer flushes one buffer of one shard. It is safe for concurrent use, in any number of processes.
type Buffer struct {
	DB     DB
	Source Source
	Apply  ApplyFunc
	Record RecordFunc // NewRecord's, but in a test that takes it out
}

// ErrStale means that the batch was taken so long ago that its flush id could be forgotten: it is not applied, and stays.
var ErrStale = errors.New("the batch was taken too long ago")

const (
	// lockTimeout bounds the wait for a row, and for another flusher of the same batch. It is shorter than the time after
	// which Postgres looks for deadlocks: it should be the flush that gives way, and not whoever writes sessions.
	lockTimeout = "900" // ms
	// attempts at a batch before it is left to the next flush: others may lock its rows in another order.
	attempts = 3
	// retryPause is the time between two of them.
	retryPause = 50 * time.Millisecond
)

// Flush applies the batch that was left behind, if there is one, and then what has gathered.
func (b *Buffer) Flush(ctx context.Context) (Count, error) {
	var total Count
	for range 2 {
		c, more, err := b.flushOne(ctx)
		total.add(c)
		if err != nil || !more {
			return total, err
		}
	}
	return total, nil
}

// flushOne takes a batch and applies it. The order of the steps is the point of it; see doc.go.
func (b *Buffer) flushOne(ctx context.Context) (c Count, more bool, err error) {
	askedAt, err := dbsqlc.New().FlushGetTime(ctx, b.DB)
	if err != nil {
		return c, false, fmt.Errorf("ask Postgres for the time: %w", err)
	}
	batch, ok, err := b.Source.Take(ctx)
	if err != nil || !ok {
		return c, false, err
	}
	entries, err := b.Source.Read(ctx, batch)
	if errors.Is(err, ErrGone) {
		return c, true, nil
	}
	if err != nil {
		return c, false, err
	}
	if c, err = b.applyPatiently(ctx, batch, askedAt, entries); err != nil {
		return c, false, fmt.Errorf("apply batch: %w", err)
	}
	return c, true, b.Source.Done(ctx, batch)
}

// applyPatiently tries again, under the same id, when others held the rows.
func (b *Buffer) applyPatiently(ctx context.Context, batch Batch, askedAt time.Time, entries map[string]string) (Count, error) {
	for n := 1; ; n++ {
		c, err := b.apply(ctx, batch, askedAt, entries)
		if err == nil || n == attempts || !lockedOut(err) || clock.Sleep(ctx, retryPause) != nil {
			return c, err
		}
	}
}

// lockedOut says that Postgres gave up on a lock: in time, or to end a deadlock.
func lockedOut(err error) bool {
	state := store.SQLState(err)
	return state == "55P03" || state == "40P01"
}

func (b *Buffer) apply(ctx context.Context, batch Batch, askedAt time.Time, entries map[string]string) (Count, error) {
	var c Count
	err := store.WithTx(ctx, b.DB, func(ctx context.Context, tx pgx.Tx) error {
		c = Count{}
		if err := dbsqlc.New().FlushSetLockTimeout(ctx, tx, lockTimeout); err != nil {
			return fmt.Errorf("set lock timeout: %w", err)
		}
		fresh, err := b.Record(ctx, tx, batch, askedAt)
		if err != nil {
			return err
		}
		if !fresh {
			c.Known = 1
			return nil
		}
		rows, err := b.Apply(ctx, tx, entries)
		c = Count{Batches: 1, Entries: len(entries), Rows: rows}
		return err
	})
	if err != nil {
		return Count{}, err
	}
	return c, nil
}

// NewRecord records flush ids of a source in the table of flushes.
func NewRecord(source string) RecordFunc {
	return func(ctx context.Context, tx pgx.Tx, b Batch, askedAt time.Time) (bool, error) {
		q := dbsqlc.New()
		n, err := q.FlushInsert(ctx, tx, dbsqlc.FlushInsertParams{ID: b.ID, Source: source, AskedAt: askedAt})
		if err != nil {
			return false, fmt.Errorf("record flush: %w", err)
		}
		if n == 1 {
			return true, nil
		}
		if n, err = q.FlushTouch(ctx, tx, b.ID); err != nil {
			return false, fmt.Errorf("keep flush id: %w", err)
		}
		if n == 0 {
			return false, ErrStale
		}
		return false, nil
	}
}

// prune forgets the flush ids of a source that nobody can apply any more. live are the ids that Redis holds.
func prune(ctx context.Context, db dbsqlc.DBTX, source string, live []uuid.UUID) error {
	if live == nil {
		live = []uuid.UUID{}
	}
	if _, err := dbsqlc.New().FlushPrune(ctx, db, source, live); err != nil {
		return fmt.Errorf("forget flush ids: %w", err)
	}
	return nil
}
