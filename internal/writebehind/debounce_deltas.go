package writebehind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// DeltasDeps are what Deltas work with. Observe may be nil.
type DeltasDeps struct {
	DB      dbsqlc.DBTX // where flush ids stand
	Redis   redis.UniversalClient
	Clock   clock.Clock
	Log     *slog.Logger
	Observe ObserveFunc
	// ApplyFunc adds the deltas of a flush to where they are counted, in one transaction with Once: the same flush may come
	// again, and from several processes.
	ApplyFunc func(ctx context.Context, f Flush) error
}

// Deltas gathers changes of records in Redis and brings each record's sum to Postgres after the delay. It is safe for
// concurrent use.
type Deltas struct {
	*debouncer
	deps DeltasDeps
	keys []debounceKeys
	// stuck are flushes that this process took and could not apply, by shard. Nothing more is taken from the shard before they
	// are, so that Redis does not fill up with flushes while Postgres is away. Only the running goroutine uses it.
	stuck []*Flush
}

// NewDeltas makes the Deltas of that name.
func NewDeltas(name string, cfg DebounceConfig, d DeltasDeps) *Deltas {
	keys := shardedKeys(d.Redis, name)
	return &Deltas{debouncer: newDebouncer(cfg, d.Clock, d.Log, d.Observe), deps: d, keys: keys, stuck: make([]*Flush, len(keys))}
}

// Add adds n to a record. An error means that it is not known to be recorded.
func (d *Deltas) Add(ctx context.Context, record uuid.UUID, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.CallTimeout)
	defer cancel()
	k := d.keys[shardOf(record, len(d.keys))]
	// Once: the client would send it again when the answer is lost, and count it twice.
	mine, err := redisconn.RunOnce(ctx, d.deps.Redis, debounceAddScript, []string{k.deltas, k.due},
		record.String(), n, d.cfg.Delay.Milliseconds(), d.cfg.Grace.Milliseconds()).Bool()
	if err != nil {
		return fmt.Errorf("add delta: %w", err)
	}
	if mine {
		d.later(record)
	}
	return nil
}

// Run flushes records until ctx ends, and then those that are left in memory.
func (d *Deltas) Run(ctx context.Context) error { return d.run(ctx, d) }

// flush implements worker. One shard that fails does not stop the others.
func (d *Deltas) flush(ctx context.Context, records []uuid.UUID) error {
	var errs []error
	for shard, group := range byShard(records, len(d.keys)) {
		if len(group) > 0 || d.stuck[shard] != nil {
			errs = append(errs, d.flushShard(ctx, shard, group))
		}
	}
	return errors.Join(errs...)
}

func (d *Deltas) flushShard(ctx context.Context, shard int, records []uuid.UUID) error {
	if stuck := d.stuck[shard]; stuck != nil {
		if err := d.settle(ctx, shard, *stuck); err != nil {
			return err
		}
	}
	if len(records) == 0 {
		return nil
	}
	f, held, err := d.keys[shard].take(ctx, d.deps.Redis, records)
	if err != nil {
		return err
	}
	if len(f.Records) > 0 {
		if err := d.settle(ctx, shard, f); err != nil {
			return err
		}
	}
	if len(held) == 0 {
		return nil
	}
	if err := d.finish(ctx, shard, held); err != nil {
		return err
	}
	// They were left where they stood, and are still armed in this process's name.
	d.later(without(records, f.Records)...)
	return nil
}

// settle applies a flush and forgets it, in this order: whoever dies in between leaves a flush that is found to be applied.
func (d *Deltas) settle(ctx context.Context, shard int, f Flush) error {
	d.stuck[shard] = &f
	err := d.deps.ApplyFunc(ctx, f)
	switch {
	case errors.Is(err, errLapsed):
		err = d.keys[shard].back(ctx, d.deps.Redis, f)
		d.later(f.Records...)
	case err == nil:
		err = d.keys[shard].done(ctx, d.deps.Redis, f)
	}
	if err != nil {
		return fmt.Errorf("flush deltas: %w", err)
	}
	d.stuck[shard] = nil
	return nil
}

// finish settles flushes of others, whole as they were taken: a flush id stands for all of its records.
func (d *Deltas) finish(ctx context.Context, shard int, flushes []uuid.UUID) error {
	for _, id := range flushes {
		f, err := d.keys[shard].flush(ctx, d.deps.Redis, id)
		if err != nil {
			return err
		}
		if len(f.Records) == 0 {
			continue // whoever took it has ended it meanwhile
		}
		if err := d.settle(ctx, shard, f); err != nil {
			return err
		}
	}
	return nil
}

// sweep implements worker. Only after nothing of Redis was left behind old flush ids are forgotten: none of them can be met
// any more.
func (d *Deltas) sweep(ctx context.Context) error {
	if err := d.sweepAll(ctx, d.cfg.Grace); err != nil {
		return err
	}
	return forgetFlushes(ctx, d.deps.DB)
}

// FlushAll flushes what there is, whether it is due or not, and whoever is about to: that one finds it done. It is for a
// process that does not Run.
func (d *Deltas) FlushAll(ctx context.Context) error { return d.sweepAll(ctx, -d.cfg.Delay) }

// sweepAll sweeps all shards. One that fails does not stop the others.
func (d *Deltas) sweepAll(ctx context.Context, overdue time.Duration) error {
	shards, err := d.standing(ctx)
	errs := []error{err}
	for _, shard := range shards {
		errs = append(errs, d.sweepShard(ctx, shard, overdue))
	}
	return errors.Join(errs...)
}

// standing lists the shards that hold anything: with no traffic that is all that is asked of Redis. Where a node of a cluster
// does not answer, those of the others are listed beside the error.
func (d *Deltas) standing(ctx context.Context) ([]int, error) {
	pipe := d.deps.Redis.Pipeline()
	found := make([]*redis.IntCmd, len(d.keys))
	for i, k := range d.keys {
		found[i] = pipe.Exists(ctx, k.due, k.processing)
	}
	_, err := pipe.Exec(ctx)
	var shards []int
	for i, cmd := range found {
		if cmd.Err() == nil && cmd.Val() > 0 {
			shards = append(shards, i)
		}
	}
	if err != nil {
		return shards, fmt.Errorf("look for deltas: %w", err)
	}
	return shards, nil
}

// sweepShard flushes what has been overdue for the given time; a negative one takes in what will be due within it.
func (d *Deltas) sweepShard(ctx context.Context, shard int, overdue time.Duration) error {
	for {
		due, flushes, err := d.keys[shard].left(ctx, d.deps.Redis, overdue, d.cfg.Batch)
		if err != nil {
			return err
		}
		if err := d.finish(ctx, shard, flushes); err != nil {
			return err
		}
		if len(due) == 0 {
			return nil
		}
		err = d.flushShard(ctx, shard, due)
		d.observe(len(due), err)
		if err != nil {
			return err
		}
		if len(due) < d.cfg.Batch {
			return nil
		}
	}
}

// without is the records that are not among others.
func without(records, others []uuid.UUID) []uuid.UUID {
	drop := make(map[uuid.UUID]bool, len(others))
	for _, r := range others {
		drop[r] = true
	}
	var rest []uuid.UUID
	for _, r := range records {
		if !drop[r] {
			rest = append(rest, r)
		}
	}
	return rest
}

var _ worker = (*Deltas)(nil)
