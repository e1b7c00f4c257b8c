package writebehind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
)

// ArmsDeps are what Arms work with. Observe may be nil.
type ArmsDeps struct {
	Redis   redis.UniversalClient
	Clock   clock.Clock
	Log     *slog.Logger
	Observe ObserveFunc
	// FlushFunc brings what is pending of the records to where it is counted. It is told of a record after the deltas that it
	// was armed for were committed, possibly more than once, also by several processes at the same time.
	FlushFunc func(ctx context.Context, records []uuid.UUID) error
	// StaleFunc lists, from where the deltas are kept, records that have been pending for a while, at most max of them.
	StaleFunc func(ctx context.Context, maxRecords int) ([]uuid.UUID, error)
}

// Arms flushes records whose deltas are kept by somebody else, safely: here is only noted that there are some. So nothing is
// lost with Redis, and nothing fails without it. It is safe for concurrent use.
type Arms struct {
	*debouncer
	deps ArmsDeps
	keys []debounceKeys
}

// NewArms makes the Arms of that name.
func NewArms(name string, cfg DebounceConfig, d ArmsDeps) *Arms {
	return &Arms{debouncer: newDebouncer(cfg, d.Clock, d.Log, d.Observe), deps: d, keys: shardedKeys(d.Redis, name)}
}

// Arm has a record flushed within the delay, by this process or by the one that armed it before. It is called after the delta
// was committed: a flush that has begun may have missed it. It does not fail: without Redis this process flushes by itself.
func (a *Arms) Arm(ctx context.Context, record uuid.UUID) {
	if a.waits(record) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	keys := []string{a.keys[shardOf(record, len(a.keys))].due}
	// Once: sent again, it would find its own entry and leave the record to nobody.
	mine, err := redisconn.RunOnce(ctx, a.deps.Redis, debounceArmScript, keys, record.String(), a.cfg.Delay.Milliseconds(), a.cfg.Grace.Milliseconds()).Bool()
	if mine || err != nil {
		a.later(record)
	}
}

// Expect is Arm for who is still in a transaction and must not wait: the records are flushed by this process, after the
// delay. If the transaction takes longer a sweep finds them.
func (a *Arms) Expect(records ...uuid.UUID) { a.later(records...) }

// Run flushes records until ctx ends, and then those that are left in memory.
func (a *Arms) Run(ctx context.Context) error { return a.run(ctx, a) }

// flush implements worker. The records leave the due set before their deltas are read: whoever commits one after that finds
// them unarmed and arms them anew. Without Redis they are flushed all the same.
func (a *Arms) flush(ctx context.Context, records []uuid.UUID) error {
	if len(records) == 0 {
		return nil
	}
	a.disarm(ctx, records)
	return a.deps.FlushFunc(ctx, records)
}

func (a *Arms) disarm(ctx context.Context, records []uuid.UUID) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	pipe := a.deps.Redis.Pipeline()
	for shard, group := range byShard(records, len(a.keys)) {
		members := make([]any, len(group))
		for i, r := range group {
			members[i] = r.String()
		}
		if len(members) > 0 {
			pipe.ZRem(ctx, a.keys[shard].due, members...)
		}
	}
	_, _ = pipe.Exec(ctx) // an arm that stays counts as dead after the grace, and is taken over
}

// sweep implements worker. What is pending is known where the deltas are kept: Redis need not be asked.
func (a *Arms) sweep(ctx context.Context) error {
	for {
		stale, err := a.deps.StaleFunc(ctx, a.cfg.Batch)
		if err != nil {
			return fmt.Errorf("list stale records: %w", err)
		}
		if len(stale) == 0 {
			return nil
		}
		err = a.flush(ctx, stale)
		a.observe(len(stale), err)
		if err != nil {
			return err
		}
		if len(stale) < a.cfg.Batch {
			return nil
		}
	}
}

var _ worker = (*Arms)(nil)

// errDebounceAnswer is an answer that the script at hand does not give.
var errDebounceAnswer = errors.New("unexpected answer of a script")
