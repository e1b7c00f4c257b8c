package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/verify"
)

// verifyMetrics are those of the background check.
type verifyMetrics struct {
	found, healed, passes *prometheus.CounterVec
	unhealed              *prometheus.GaugeVec
	checked               *prometheus.CounterVec
}

func newVerifyMetrics(r prometheus.Registerer) *verifyMetrics {
	counters := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		r.MustRegister(c)
		return c
	}
	m := &verifyMetrics{
		found:   counters("commma_verify_drift_total", "Users, and places on boards, that were found wrong.", "kind"),
		healed:  counters("commma_verify_healed_total", "How many of those were healed.", "kind"),
		checked: counters("commma_verify_checked_total", "Users and boards compared.", "what"),
		passes:  counters("commma_verify_passes_total", "Passes over all users and boards.", "result"),
		unhealed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "commma_verify_unhealed", Help: "What the last whole pass found and could not heal.",
		}, []string{"kind"}),
	}
	r.MustRegister(m.unhealed)
	for _, kind := range []string{string(aggregate.DriftSession), string(aggregate.DriftTotal), string(aggregate.DriftStreak),
		string(aggregate.DriftCount), verify.KindPlace} {
		// They must be there at zero, so that the first drift is seen as an increase.
		m.found.WithLabelValues(kind)
		m.healed.WithLabelValues(kind)
		m.unhealed.WithLabelValues(kind)
	}
	return m
}

func (m *verifyMetrics) observe(kind string, found, healed int64) {
	m.found.WithLabelValues(kind).Add(float64(found))
	m.healed.WithLabelValues(kind).Add(float64(healed))
}

func (m *verifyMetrics) passed(r verify.Result, err error) {
	m.passes.WithLabelValues(result(err)).Inc()
	m.checked.WithLabelValues("users").Add(float64(r.Users))
	m.checked.WithLabelValues("boards").Add(float64(r.Boards))
}

func (m *verifyMetrics) left(kind string, c verify.Count) {
	m.unhealed.WithLabelValues(kind).Set(float64(c.Users - c.Healed))
}

// verifyShare is the part of the interval that a pass is spread over: the rest is for what it costs itself.
const verifyShare = 0.9

// verifyLoop compares all users and all boards once per interval, a page now and then, and heals what it finds, until ctx
// ends. Every process that runs the loops does so by itself: they do not harm one another.
func (b *backend) verifyLoop(ctx context.Context, interval time.Duration) {
	if interval <= 0 {
		return
	}
	m := newVerifyMetrics(b.registry)
	over := time.Duration(verifyShare * float64(interval))
	o := verify.Options{Heal: true, Page: verifyPage, Anew: true, Observe: m.observe}
	var g errgroup.Group
	g.Go(func() error {
		b.verifyPasses(ctx, interval, m, func() (verify.Result, error) { return b.Checker.UsersOver(ctx, over, o) },
			func(r verify.Result) {
				m.left(string(aggregate.DriftSession), r.Sessions)
				m.left(string(aggregate.DriftTotal), r.Totals)
				m.left(string(aggregate.DriftStreak), r.Streaks)
				m.left(string(aggregate.DriftCount), r.Counts)
			})
		return nil
	})
	g.Go(func() error {
		b.verifyPasses(ctx, interval, m, func() (verify.Result, error) { return b.Checker.BoardsOver(ctx, over, o) },
			func(r verify.Result) { m.left(verify.KindPlace, r.Places) })
		return nil
	})
	_ = g.Wait() // neither fails
}

// verifyPage keeps each step of the background check to some milliseconds.
const verifyPage = 100

// verifyRetry is how long the check waits after a pass that failed.
const verifyRetry = time.Minute

// verifyPasses runs pass after pass, one per interval. whole is told of those that came to their end.
func (b *backend) verifyPasses(
	ctx context.Context, interval time.Duration, m *verifyMetrics, pass func() (verify.Result, error), whole func(verify.Result),
) {
	for ctx.Err() == nil {
		began := b.Clock.Now()
		r, err := pass()
		if ctx.Err() != nil {
			return
		}
		m.passed(r, err)
		if err != nil {
			b.Log.WarnContext(ctx, "the check for drift failed and starts again", "err", err)
			_ = clock.Sleep(ctx, min(verifyRetry, interval))
			continue
		}
		whole(r)
		if r.Drift > 0 {
			b.Log.WarnContext(ctx, "the check found drift", "drift", r.Drift, "healed", r.Healed)
		}
		_ = clock.Sleep(ctx, max(interval-b.Clock.Now().Sub(began), time.Millisecond))
	}
}
