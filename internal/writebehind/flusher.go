package writebehind

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
)

// Kind is one kind of buffer.
type Kind struct {
	Name  string // names the keys and the flush ids
	Apply ApplyFunc
}

// Stats say what a flush did, by kind.
type Stats map[string]Count

// Pending says whether something of any kind was there.
func (s Stats) Pending() bool { return len(s) > 0 }

// Flusher flushes all buffers of all shards. It is safe for concurrent use, in any number of processes.
type Flusher struct {
	db     DB
	rdb    redis.UniversalClient
	clock  clock.Clock
	kinds  []Kind
	shards int

	mu       sync.Mutex
	prunedAt time.Time
}

// NewFlusher makes a Flusher on a pool.
func NewFlusher(db DB, rdb redis.UniversalClient, c clock.Clock, kinds ...Kind) *Flusher {
	return &Flusher{db: db, rdb: rdb, clock: c, kinds: kinds, shards: int(redisconn.ShardsOf(rdb))}
}

// Flush applies what is there. When nothing is, it costs one command per shard. After an error the rest was still tried.
func (f *Flusher) Flush(ctx context.Context) (Stats, error) {
	stats := make(Stats)
	var errs []error
	busy, err := f.look(ctx)
	if err != nil {
		errs = append(errs, err)
	}
	for _, shard := range busy {
		for _, k := range f.kinds {
			c, err := f.buffer(k, shard).Flush(ctx)
			total := stats[k.Name]
			total.add(c)
			stats[k.Name] = total
			if err != nil {
				errs = append(errs, fmt.Errorf("flush %s: %w", k.Name, err))
			}
		}
	}
	if len(busy) > 0 && len(errs) == 0 {
		errs = append(errs, f.prune(ctx))
	}
	return stats, errors.Join(errs...)
}

func (f *Flusher) buffer(k Kind, shard int) *Buffer {
	return &Buffer{DB: f.db, Source: NewSource(f.rdb, KeysOf(k.Name, shard)), Apply: k.Apply, Record: NewRecord(k.Name)}
}

// look finds the shards in which there is something. The kinds share the shard's tag, so one command asks for all. Where a
// node of a cluster does not answer, those of the others are found beside the error.
func (f *Flusher) look(ctx context.Context) (busy []int, err error) {
	pipe := f.rdb.Pipeline()
	found := make([]*redis.IntCmd, f.shards)
	for shard := range found {
		var keys []string
		for _, k := range f.kinds {
			of := KeysOf(k.Name, shard)
			keys = append(keys, of.Buf, of.Proc)
		}
		found[shard] = pipe.Exists(ctx, keys...)
	}
	_, err = pipe.Exec(ctx)
	for shard, n := range found {
		if n.Err() == nil && n.Val() > 0 {
			busy = append(busy, shard)
		}
	}
	if err != nil {
		return busy, fmt.Errorf("look for what is to be flushed: %w", err)
	}
	return busy, nil
}

// pruneEvery is how often a process that flushes forgets old flush ids.
const pruneEvery = time.Hour

// prune forgets old flush ids now and then. Which ids Redis holds is read before anything is deleted: an id that it does
// not hold then, it never holds again.
func (f *Flusher) prune(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if now.Sub(f.prunedAt) < pruneEvery {
		return nil
	}
	for _, k := range f.kinds {
		live, err := f.live(ctx, k)
		if err != nil {
			return err
		}
		if err := prune(ctx, f.db, k.Name, live); err != nil {
			return err
		}
	}
	f.prunedAt = now
	return nil
}

// live are the flush ids of a kind that Redis holds.
func (f *Flusher) live(ctx context.Context, k Kind) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for shard := range f.shards {
		text, err := f.rdb.HGet(ctx, KeysOf(k.Name, shard).Meta, "id").Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read flush id: %w", err)
		}
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("read flush id: %w", errAnswer)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
