package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/writebehind"
)

// flushMetrics are those of what is written behind. Labels are the kinds of buffers.
type flushMetrics struct {
	flushes                *prometheus.CounterVec
	batches, entries, rows *prometheus.CounterVec
	oldest                 prometheus.Gauge
}

func newFlushMetrics(r prometheus.Registerer) *flushMetrics {
	counters := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		r.MustRegister(c)
		return c
	}
	m := &flushMetrics{
		flushes: counters("commma_flushes_total", "Looks for what is to be flushed, most of which find nothing.", "result"),
		batches: counters("commma_flush_batches_total", "Batches written.", "kind"),
		entries: counters("commma_flush_entries_total", "Entries of those batches.", "kind"),
		rows:    counters("commma_flush_rows_total", "Rows that were written for them.", "kind"),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commma_flush_oldest_seconds", Help: "How old the oldest of what is not flushed may be; 0 after a good flush.",
		}),
	}
	r.MustRegister(m.oldest)
	for _, label := range []string{result(nil), result(errors.New(""))} {
		m.flushes.WithLabelValues(label) // there at zero, so that the first failure is seen as an increase
	}
	return m
}

func (m *flushMetrics) observe(stats writebehind.Stats, err error, since time.Duration) {
	m.flushes.WithLabelValues(result(err)).Inc()
	for kind, c := range stats {
		m.batches.WithLabelValues(kind).Add(float64(c.Batches))
		m.entries.WithLabelValues(kind).Add(float64(c.Entries))
		m.rows.WithLabelValues(kind).Add(float64(c.Rows))
	}
	if err == nil {
		since = 0
	}
	m.oldest.Set(since.Seconds())
}

const (
	// flushTimeout bounds a flush: what an outage left behind takes longer than the usual. It must be far under the hour
	// within which a batch may be applied.
	flushTimeout = 5 * time.Minute
	// flushRetry is when a flush that failed is tried again.
	flushRetry = 15 * time.Second
	// lastFlush bounds the flush at the end. What it does not write stays in Redis.
	lastFlush = 3 * time.Second
)

// flushLoop flushes now and then again each interval, until ctx ends.
func (b *backend) flushLoop(ctx context.Context, interval time.Duration) {
	m := newFlushMetrics(b.registry)
	good := b.Clock.Now()
	for ctx.Err() == nil {
		wait := jitter(interval)
		stats, err := b.flush(ctx, flushTimeout)
		if ctx.Err() != nil {
			return
		}
		now := b.Clock.Now()
		m.observe(stats, err, now.Sub(good))
		if err == nil {
			good = now
		} else {
			b.Log.WarnContext(ctx, "a flush failed, what it did not write stays and is tried again", "err", err)
			wait = min(wait, flushRetry)
		}
		if stats.Pending() {
			b.Log.InfoContext(ctx, "flushed", "stats", stats)
		}
		_ = clock.Sleep(ctx, wait)
	}
}

// flush applies what has gathered in Redis.
func (b *backend) flush(ctx context.Context, timeout time.Duration) (writebehind.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return b.Flusher.Flush(ctx)
}

// flushLast flushes before the process ends, when nothing more is accepted by it.
func (b *backend) flushLast(ctx context.Context) {
	if _, err := b.flush(context.WithoutCancel(ctx), lastFlush); err != nil {
		b.Log.WarnContext(ctx, "the last flush failed, another process takes over what it did not write", "err", err)
	}
}
