package writebehind

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/clock"
)

// DebounceConfig are the settings of a debounced counter. Zero values mean the defaults.
type DebounceConfig struct {
	// Delay is the time between the first change of a record and its flush, in which further changes join it; 5 s.
	Delay time.Duration
	// Grace is how long after that a flusher counts as dead; 30 s. It must be longer than a flush takes, or work is done twice
	// (and counted once).
	Grace time.Duration
	// SweepEvery is the time between two looks for what dead processes left behind; 5 min.
	SweepEvery time.Duration
	// Batch is how many records one flush holds at most; 500.
	Batch int
	// Queue is how many records the process keeps in memory at most; 10,000. The rest waits for a sweep.
	Queue int
	// CallTimeout bounds what a request waits for Redis; 250 ms.
	CallTimeout time.Duration
	// FlushTimeout bounds one flush; 20 s.
	FlushTimeout time.Duration
	// StopTimeout bounds the flush of what is in memory when the process is told to stop; 5 s.
	StopTimeout time.Duration
}

func (c DebounceConfig) withDefaults() DebounceConfig {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Delay, 5 * time.Second},
		{&c.Grace, 30 * time.Second},
		{&c.SweepEvery, 5 * time.Minute},
		{&c.CallTimeout, 250 * time.Millisecond},
		{&c.FlushTimeout, 20 * time.Second},
		{&c.StopTimeout, 5 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.Batch <= 0 {
		c.Batch = 500
	}
	if c.Queue <= 0 {
		c.Queue = 10_000
	}
	return c
}

// ObserveFunc hears of every flush: how many records, and whether it failed.
type ObserveFunc func(records int, err error)

// debouncer is what the two kinds of debounced counters share: the records that this process has to flush, in memory, and
// the one goroutine that does. Every record waits for the same time, so a queue in order of arrival is in order of time too.
type debouncer struct {
	cfg     DebounceConfig
	clock   clock.Clock
	log     *slog.Logger
	observe ObserveFunc

	mu      sync.Mutex
	queue   []waiting
	present map[uuid.UUID]struct{} // the records in queue
	wake    chan struct{}
}

// waiting is a record and when to flush it.
type waiting struct {
	record uuid.UUID
	due    time.Time
}

func newDebouncer(cfg DebounceConfig, c clock.Clock, log *slog.Logger, observe ObserveFunc) *debouncer {
	if observe == nil {
		observe = func(int, error) {}
	}
	return &debouncer{
		cfg: cfg.withDefaults(), clock: c, log: log, observe: observe,
		present: make(map[uuid.UUID]struct{}), wake: make(chan struct{}, 1),
	}
}

// later has records flushed after the delay. What the queue has no room for is left to a sweep.
func (d *debouncer) later(records ...uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	due := d.clock.Now().Add(d.cfg.Delay)
	for _, r := range records {
		if _, ok := d.present[r]; ok || len(d.queue) >= d.cfg.Queue {
			continue
		}
		d.present[r] = struct{}{}
		d.queue = append(d.queue, waiting{r, due})
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// waits says whether a flush of the record is still to begin: it will see whatever was committed before this was asked.
func (d *debouncer) waits(record uuid.UUID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.present[record]
	return ok
}

// next takes the records that are due out of the queue, at most a batch, and says when the first of the rest will be.
func (d *debouncer) next(all bool) (records []uuid.UUID, due time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, n := d.clock.Now(), 0
	for n < len(d.queue) && n < d.cfg.Batch && (all || !d.queue[n].due.After(now)) {
		records = append(records, d.queue[n].record)
		delete(d.present, d.queue[n].record)
		n++
	}
	d.queue = d.queue[n:]
	if len(d.queue) == 0 {
		d.queue = nil // lets go of what it had grown to
		return records, time.Time{}
	}
	return records, d.queue[0].due
}

// worker is what a kind of counter does with records.
type worker interface {
	// flush brings the records to Postgres, and before them what it could not bring there the last time.
	flush(ctx context.Context, records []uuid.UUID) error
	// sweep flushes what others left behind.
	sweep(ctx context.Context) error
}

// run flushes what is due and sweeps now and then, until ctx ends; then it flushes what is left in memory.
func (d *debouncer) run(ctx context.Context, w worker) error {
	sweepAt := d.clock.Now()
	for ctx.Err() == nil {
		records, due := d.next(false)
		d.flush(ctx, w, records)
		if now := d.clock.Now(); ctx.Err() == nil && !now.Before(sweepAt) {
			d.sweep(ctx, w)
			// A little earlier or later, so that processes that started together spread out.
			sweepAt = now.Add(time.Duration(float64(d.cfg.SweepEvery) * (0.9 + 0.2*rand.Float64())))
			continue
		}
		if len(records) > 0 {
			continue
		}
		if due.IsZero() || sweepAt.Before(due) {
			due = sweepAt
		}
		d.wait(ctx, due)
	}
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.StopTimeout)
	defer cancel()
	for sctx.Err() == nil {
		records, _ := d.next(true)
		// Once with none: a sweep may have been cut off with a flush in its hands.
		if err := w.flush(sctx, records); err != nil || len(records) == 0 {
			break // what is left is found by the sweep of another process
		}
	}
	return nil
}

// wait waits until due, or until there may be something due before that.
func (d *debouncer) wait(ctx context.Context, due time.Time) {
	t := time.NewTimer(max(due.Sub(d.clock.Now()), time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-d.wake:
	case <-t.C:
	}
}

// flush flushes a batch. What fails waits for the delay once more, and then again: nothing was lost by it.
func (d *debouncer) flush(ctx context.Context, w worker, records []uuid.UUID) {
	if len(records) == 0 {
		return
	}
	fctx, cancel := context.WithTimeout(ctx, d.cfg.FlushTimeout)
	defer cancel()
	err := w.flush(fctx, records)
	d.observe(len(records), err)
	if err == nil {
		return
	}
	d.later(records...)
	if ctx.Err() == nil {
		d.log.WarnContext(ctx, "counters could not be flushed, they are tried again", "records", len(records), "err", err)
	}
}

func (d *debouncer) sweep(ctx context.Context, w worker) {
	sctx, cancel := context.WithTimeout(ctx, d.cfg.FlushTimeout)
	defer cancel()
	if err := w.sweep(sctx); err != nil && ctx.Err() == nil {
		d.log.WarnContext(ctx, "could not look for counters that were left behind, the next sweep does", "err", err)
	}
}

var (
	// errTooOld means that a flush was taken so long ago that nobody may apply it any more.
	errTooOld = errors.New("the flush is too old to be applied")
	// errLapsed means that, and that it certainly never was applied and will not be.
	errLapsed = errors.New("the flush has lapsed")
)
