package main

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/writebehind"
)

// followSessions has what people did to sessions follow them.
func followSessions(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, c aggregate.Changed) error {
	merged := make([]engagement.Merge, len(c.Merged))
	for i, m := range c.Merged {
		merged[i] = engagement.Merge(m)
	}
	return engagement.SessionsChanged(ctx, db, userID, c.Made, merged, c.Deleted)
}

// debounced are the counters of sessions that are flushed seconds after they changed.
type debounced struct {
	shares  *writebehind.Deltas
	engaged *writebehind.Arms // of kudos and comments
	flusher *engagement.Flusher
}

func (b *backend) newDebounced() debounced {
	flusher := engagement.NewFlusher(b.pool)
	m := newDebounceMetrics(b.registry)
	cfg := writebehind.DebounceConfig{}
	return debounced{
		flusher: flusher,
		shares: writebehind.NewDeltas("shares", cfg, writebehind.DeltasDeps{
			DB: b.pool, Redis: b.redis, Clock: b.clock, Log: b.log, Observe: m.observe("shares"), ApplyFunc: flusher.ApplyShares,
		}),
		engaged: writebehind.NewArms("engaged", cfg, writebehind.ArmsDeps{
			Redis: b.redis, Clock: b.clock, Log: b.log, Observe: m.observe("engaged"),
			FlushFunc: flusher.FlushDeltas, StaleFunc: flusher.Stale,
		}),
	}
}

// run flushes what this process armed, and what dead ones left behind, until ctx ends.
func (d debounced) run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return d.shares.Run(ctx) })
	g.Go(func() error { return d.engaged.Run(ctx) })
	return g.Wait()
}

// flushAll flushes what there is, due or not: for a process that does not run.
func (d debounced) flushAll(ctx context.Context) error {
	return errors.Join(d.shares.FlushAll(ctx), d.flusher.FlushAll(ctx))
}

// eraseUser erases what hangs on a user's sessions, and what the user left on those of others, whose counts follow.
func (d debounced) eraseUser(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	changed, err := engagement.EraseUserTx(ctx, tx, userID)
	d.engaged.Expect(changed...)
	return err
}

// debounceMetrics are those of debounced counters.
type debounceMetrics struct{ flushes, records *prometheus.CounterVec }

func newDebounceMetrics(r prometheus.Registerer) debounceMetrics {
	m := debounceMetrics{
		flushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commma_debounce_flushes_total", Help: "Flushes of debounced counters.",
		}, []string{"counter", "result"}),
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commma_debounce_records_total", Help: "Sessions whose counters were flushed.",
		}, []string{"counter"}),
	}
	r.MustRegister(m.flushes, m.records)
	return m
}

func (m debounceMetrics) observe(counter string) writebehind.ObserveFunc {
	return func(records int, err error) {
		m.flushes.WithLabelValues(counter, result(err)).Inc()
		if err == nil {
			m.records.WithLabelValues(counter).Add(float64(records))
		}
	}
}
