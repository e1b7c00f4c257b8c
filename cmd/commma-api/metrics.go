package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/outbox"
)

// metrics are those of the aggregator, the publisher and admission. Labels come from small closed sets: never a user.
type metrics struct {
	cycles, publishes, admissions, redisFailures *prometheus.CounterVec
	sessions, seconds, usersFailed, usersShown   prometheus.Counter
	archivesPruned, usersRetried, buildsFailed   prometheus.Counter
	usersSetAside, pendingUsers, pendingAge      prometheus.Gauge
	redisGivenUp                                 prometheus.Gauge
	cycleSeconds                                 prometheus.Histogram
}

var _ admission.Observer = (*metrics)(nil)

func newMetrics(r prometheus.Registerer) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	counter := func(name, help string) prometheus.Counter { return counters(name, help).WithLabelValues() }
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		r.MustRegister(g)
		return g
	}
	m := &metrics{
		cycles:         counters("commma_aggregate_cycles_total", "Aggregation cycles.", "result"),
		sessions:       counter("commma_aggregate_sessions_total", "Sessions written, new or replaced."),
		seconds:        counter("commma_aggregate_seconds_total", "Seconds that all-time totals grew by."),
		usersFailed:    counter("commma_aggregate_user_failures_total", "Times that a user's data could not be finalized."),
		usersRetried:   counter("commma_aggregate_user_retries_total", "Times that a user was left to the next cycle after a passing fault."),
		archivesPruned: counter("commma_aggregate_archive_rows_pruned_total", "Archive rows that no later event could touch."),
		usersSetAside:  gauge("commma_aggregate_users_set_aside", "Users whose data cannot be finalized now."),
		cycleSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commma_aggregate_cycle_seconds", Help: "Length of a cycle.", Buckets: prometheus.ExponentialBuckets(0.005, 4, 9),
		}),
		publishes:     counters("commma_publish_total", "Attempts to bring pending users to the boards.", "result"),
		buildsFailed:  counter("commma_board_builds_failed_total", "Builds of boards that failed or were lost."),
		usersShown:    counter("commma_publish_users_total", "Users brought to all their boards."),
		pendingUsers:  gauge("commma_outbox_pending_users", "Users whose totals the boards do not show yet."),
		pendingAge:    gauge("commma_outbox_oldest_seconds", "How long the first of them has been waiting."),
		admissions:    counters("commma_admissions_total", "Requests by what admission said.", "scope", "code", "cached"),
		redisFailures: counters("commma_admission_redis_failures_total", "Steps of an admission that Redis failed.", "step"),
		redisGivenUp:  gauge("commma_admission_redis_given_up", "1 while admission leaves Redis alone."),
	}
	r.MustRegister(m.cycleSeconds)
	return m
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

func (m *metrics) aggregated(s aggregate.Stats, err error) {
	m.cycles.WithLabelValues(result(err)).Inc()
	m.sessions.Add(float64(s.Sessions))
	m.seconds.Add(float64(max(s.Seconds, 0)))
	m.usersFailed.Add(float64(s.Failed))
	m.usersRetried.Add(float64(s.Retried))
	if err == nil {
		m.usersSetAside.Set(float64(s.SetAside))
		m.cycleSeconds.Observe(s.TookS)
	}
}

func (m *metrics) published(s outbox.Stats, err error) {
	m.publishes.WithLabelValues(result(err)).Inc()
	m.usersShown.Add(float64(s.Users))
	m.buildsFailed.Add(float64(s.Failed))
}

func (m *metrics) backlog(users int64, oldest time.Duration) {
	m.pendingUsers.Set(float64(users))
	m.pendingAge.Set(oldest.Seconds())
}

// Admission implements admission.Observer.
func (m *metrics) Admission(scope admission.Scope, code admission.Code, cached bool) {
	label := "false"
	if cached {
		label = "true"
	}
	m.admissions.WithLabelValues(string(scope), string(code), label).Inc()
}

// RedisFailure implements admission.Observer.
func (m *metrics) RedisFailure(step admission.Step) {
	m.redisFailures.WithLabelValues(string(step)).Inc()
}

// Breaker implements admission.Observer.
func (m *metrics) Breaker(open bool) {
	if open {
		m.redisGivenUp.Set(1)
	} else {
		m.redisGivenUp.Set(0)
	}
}
