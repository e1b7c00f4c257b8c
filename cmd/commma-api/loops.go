package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/writebehind"
)

func (f *loopFlags) check() error {
	if f.AggregateEvery <= 0 || f.PublishEvery <= 0 || f.FlushEvery <= 0 || f.Parallel <= 0 {
		return errors.New("--aggregate-every, --publish-every, --flush-every and --parallel must be positive")
	}
	if f.VerifyEvery < 0 {
		return errors.New("--verify-every must not be negative")
	}
	return nil
}

// missingPause is the least time between two builds that readers asked for.
const missingPause = 5 * time.Second

// loops runs the aggregator, the publisher and the flusher until ctx ends. A failed cycle is logged and tried again at its
// next time: whatever it left undone is still due, or still in the outbox.
//
// While nothing happens they ask next to nothing of Redis. So boards are not looked over each time, which is several commands
// a board: only at the start, after users were finalized, after a cycle that failed, and when somebody missed a board: a
// reader of this process, a publisher, or a reader of another process, who rings.
func (b *backend) loops(ctx context.Context, f loopFlags) error {
	var cycleDue atomic.Bool
	cycleDue.Store(true)
	due := make(chan struct{}, 1)
	var g errgroup.Group
	for _, loop := range []func(){
		func() {
			every(ctx, f.AggregateEvery, func() {
				if b.aggregateOnce(ctx) {
					cycleDue.Store(true)
				}
				b.pruneOnce(ctx)
				if b.rung(ctx) || cycleDue.Load() {
					poke(due)
				}
			})
		},
		func() {
			every(ctx, f.PublishEvery, func() {
				if stats, _ := b.publishOnce(ctx, b.Publisher.PublishPending); stats.Absent() {
					poke(b.missing)
				}
			})
		},
		func() {
			for waitAny(ctx, due, b.missing) {
				cycleDue.Store(false)
				if _, err := b.publishOnce(ctx, b.Publisher.Cycle); err != nil {
					cycleDue.Store(true)
				}
				_ = clock.Sleep(ctx, missingPause)
			}
		},
		func() { b.flushLoop(ctx, f.FlushEvery) },
		func() { b.verifyLoop(ctx, f.VerifyEvery) },
	} {
		g.Go(func() error {
			loop()
			return nil
		})
	}
	return g.Wait()
}

// rung says whether a reader of another process missed a board. Without Redis there is none to build.
func (b *backend) rung(ctx context.Context) bool {
	rung, err := b.Bell.Answer(ctx)
	if err != nil && ctx.Err() == nil {
		b.Log.WarnContext(ctx, "could not ask whether boards are missed", "err", err)
	}
	return rung
}

// ringTimeout bounds one ring.
const ringTimeout = time.Second

// ringLoop asks the processes that build boards for those that readers of this one missed, until ctx ends. It is for a
// process that builds none itself.
func (b *backend) ringLoop(ctx context.Context) {
	for waitAny(ctx, b.missing, nil) {
		rctx, cancel := context.WithTimeout(ctx, ringTimeout)
		if err := b.Bell.Ring(rctx); err != nil && ctx.Err() == nil {
			b.Log.WarnContext(ctx, "could not ask for a board that is missing, the next reader asks again", "err", err)
		}
		cancel()
		_ = clock.Sleep(ctx, missingPause)
	}
}

// poke leaves a signal, unless there is one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// aggregateOnce runs one cycle of the aggregator and says whether it finalized anybody.
func (b *backend) aggregateOnce(ctx context.Context) (finalized bool) {
	stats, err := b.Aggregator.Cycle(ctx, nil)
	b.metrics.aggregated(stats, err)
	if err != nil && ctx.Err() == nil {
		b.Log.ErrorContext(ctx, "aggregation failed, the next cycle tries again", "err", err)
	}
	if stats.Due > 0 {
		b.Log.InfoContext(ctx, "aggregated", "due", stats.Due, "finalized", stats.Finalized, "skipped", stats.Skipped,
			"retried", stats.Retried, "failed", stats.Failed, "sessions", stats.Sessions, "seconds", stats.Seconds, "took_s", stats.TookS)
	}
	return stats.Finalized > 0
}

func (b *backend) pruneOnce(ctx context.Context) {
	pruned, err := b.Pruner.Prune(ctx)
	b.metrics.archivesPruned.Add(float64(pruned))
	if err != nil && ctx.Err() == nil {
		b.Log.WarnContext(ctx, "pruning archives failed, the next cycle tries again", "err", err)
	}
}

// declareEvery is how often a process says how old the events are that it accepts; it counts for a day.
const declareEvery = time.Hour

// declareAge keeps the horizon behind what this process accepts, until ctx ends.
func (b *backend) declareAge(ctx context.Context, age time.Duration) {
	for clock.Sleep(ctx, declareEvery) == nil { // serve has just declared it
		if err := aggregate.DeclareAge(ctx, b.DB, age); err != nil && ctx.Err() == nil {
			b.Log.WarnContext(ctx, "could not declare the accepted age", "err", err)
		}
	}
}

func (b *backend) publishOnce(
	ctx context.Context, publish func(context.Context, *time.Time) (outbox.Stats, error),
) (outbox.Stats, error) {
	stats, err := publish(ctx, nil)
	pending, oldest, backlogErr := b.Publisher.Backlog(ctx)
	b.metrics.published(stats, err)
	if backlogErr == nil {
		b.metrics.backlog(pending, oldest)
	}
	if err != nil && ctx.Err() == nil {
		b.Log.WarnContext(ctx, "publishing to boards failed, it stays pending", "err", err, "pending", pending)
	}
	if stats.Users > 0 || stats.Built > 0 {
		b.Log.InfoContext(ctx, "published", "users", stats.Users, "left", stats.Left, "rows", stats.Rows, "built", stats.Built)
	}
	return stats, err
}

// once runs one whole cycle, for worker --once.
func (b *backend) once(ctx context.Context, now *time.Time) (onceStats, error) {
	var s onceStats
	var err error
	if s.Aggregate, err = b.Aggregator.Cycle(ctx, now); err != nil {
		return s, err
	}
	if s.Publish, err = b.Publisher.Cycle(ctx, nil); err != nil {
		return s, err
	}
	if s.Flush, err = b.flush(ctx, flushTimeout); err != nil {
		return s, err
	}
	return s, b.Counters.FlushAll(ctx)
}

// onceStats is the line that worker --once prints.
type onceStats struct {
	Aggregate aggregate.Stats   `json:"aggregate"`
	Publish   outbox.Stats      `json:"publish"`
	Flush     writebehind.Stats `json:"flush"` // by kind; empty when nothing was there
}

// every runs fn now and then again each interval, a little earlier or later so that processes that started together
// spread out, until ctx ends.
func every(ctx context.Context, interval time.Duration, fn func()) {
	for ctx.Err() == nil {
		fn()
		_ = clock.Sleep(ctx, jitter(interval))
	}
}

func jitter(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (0.95 + 0.1*rand.Float64()))
}

// waitAny waits for a signal and is false when ctx ended first.
func waitAny(ctx context.Context, a, b <-chan struct{}) bool {
	select {
	case <-a:
	case <-b:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
