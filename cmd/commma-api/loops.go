package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/outbox"
)

func (f *loopFlags) check() error {
	if f.AggregateEvery <= 0 || f.PublishEvery <= 0 || f.Parallel <= 0 {
		return errors.New("--aggregate-every, --publish-every and --parallel must be positive")
	}
	if f.VerifyEvery < 0 {
		return errors.New("--verify-every must not be negative")
	}
	return nil
}

// missingPause is the least time between two builds that readers asked for.
const missingPause = 5 * time.Second

// loops runs the aggregator and the publisher until ctx ends. A failed cycle is logged and tried again at its next time:
// whatever it left undone is still due, or still in the outbox.
func (b *backend) loops(ctx context.Context, f loopFlags) error {
	finalized := make(chan struct{}, 1)
	var g errgroup.Group
	g.Go(func() error {
		every(ctx, f.AggregateEvery, func() {
			b.aggregateOnce(ctx)
			b.pruneOnce(ctx)
			select {
			case finalized <- struct{}{}:
			default:
			}
		})
		return nil
	})
	g.Go(func() error {
		every(ctx, f.PublishEvery, func() { b.publishOnce(ctx, b.publisher.PublishPending) })
		return nil
	})
	g.Go(func() error {
		// After each aggregation, and when a reader missed a board.
		for waitAny(ctx, finalized, b.missing) {
			b.publishOnce(ctx, b.publisher.Cycle)
			_ = clock.Sleep(ctx, missingPause)
		}
		return nil
	})
	g.Go(func() error {
		b.verifyLoop(ctx, f.VerifyEvery)
		return nil
	})
	return g.Wait()
}

func (b *backend) aggregateOnce(ctx context.Context) {
	stats, err := b.aggregator.Cycle(ctx, nil)
	b.metrics.aggregated(stats, err)
	if err != nil && ctx.Err() == nil {
		b.log.ErrorContext(ctx, "aggregation failed, the next cycle tries again", "err", err)
	}
	if stats.Due > 0 {
		b.log.InfoContext(ctx, "aggregated", "due", stats.Due, "finalized", stats.Finalized, "skipped", stats.Skipped,
			"retried", stats.Retried, "failed", stats.Failed, "sessions", stats.Sessions, "seconds", stats.Seconds, "took_s", stats.TookS)
	}
}

func (b *backend) pruneOnce(ctx context.Context) {
	pruned, err := b.pruner.Prune(ctx)
	b.metrics.archivesPruned.Add(float64(pruned))
	if err != nil && ctx.Err() == nil {
		b.log.WarnContext(ctx, "pruning archives failed, the next cycle tries again", "err", err)
	}
}

// declareEvery is how often a process says how old the events are that it accepts; it counts for a day.
const declareEvery = time.Hour

// declareAge keeps the horizon behind what this process accepts, until ctx ends.
func (b *backend) declareAge(ctx context.Context, age time.Duration) {
	for clock.Sleep(ctx, declareEvery) == nil { // serve has just declared it
		if err := aggregate.DeclareAge(ctx, b.pool, age); err != nil && ctx.Err() == nil {
			b.log.WarnContext(ctx, "could not declare the accepted age", "err", err)
		}
	}
}

func (b *backend) publishOnce(ctx context.Context, publish func(context.Context, *time.Time) (outbox.Stats, error)) {
	stats, err := publish(ctx, nil)
	pending, oldest, backlogErr := b.publisher.Backlog(ctx)
	b.metrics.published(stats, err)
	if backlogErr == nil {
		b.metrics.backlog(pending, oldest)
	}
	if err != nil && ctx.Err() == nil {
		b.log.WarnContext(ctx, "publishing to boards failed, it stays pending", "err", err, "pending", pending)
	}
	if stats.Users > 0 || stats.Built > 0 {
		b.log.InfoContext(ctx, "published", "users", stats.Users, "left", stats.Left, "rows", stats.Rows, "built", stats.Built)
	}
}

// once runs one whole cycle, for worker --once.
func (b *backend) once(ctx context.Context, now *time.Time) (onceStats, error) {
	var s onceStats
	var err error
	if s.Aggregate, err = b.aggregator.Cycle(ctx, now); err != nil {
		return s, err
	}
	s.Publish, err = b.publisher.Cycle(ctx, nil)
	return s, err
}

// onceStats is the line that worker --once prints.
type onceStats struct {
	Aggregate aggregate.Stats `json:"aggregate"`
	Publish   outbox.Stats    `json:"publish"`
}

// every runs fn now and then again each interval, a little earlier or later so that processes that started together
// spread out, until ctx ends.
func every(ctx context.Context, interval time.Duration, fn func()) {
	for ctx.Err() == nil {
		fn()
		_ = clock.Sleep(ctx, time.Duration(float64(interval)*(0.95+0.1*rand.Float64())))
	}
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
