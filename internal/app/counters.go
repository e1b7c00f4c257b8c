package app

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/writebehind"
)

// Counters are the counters of sessions that are flushed seconds after they changed.
type Counters struct {
	shares  *writebehind.Deltas
	engaged *writebehind.Arms // of kudos and comments
	flusher *engagement.Flusher
}

func newCounters(a *App, observe func(counter string) writebehind.ObserveFunc) *Counters {
	flusher := engagement.NewFlusher(a.DB)
	cfg := writebehind.DebounceConfig{}
	return &Counters{
		flusher: flusher,
		shares: writebehind.NewDeltas("shares", cfg, writebehind.DeltasDeps{
			DB: a.DB, Redis: a.Redis, Clock: a.Clock, Log: a.Log, Observe: observe("shares"), ApplyFunc: flusher.ApplyShares,
		}),
		engaged: writebehind.NewArms("engaged", cfg, writebehind.ArmsDeps{
			Redis: a.Redis, Clock: a.Clock, Log: a.Log, Observe: observe("engaged"),
			FlushFunc: flusher.FlushDeltas, StaleFunc: flusher.Stale,
		}),
	}
}

// Run flushes what this process armed, and what dead ones left behind, until ctx ends.
func (c *Counters) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return c.shares.Run(ctx) })
	g.Go(func() error { return c.engaged.Run(ctx) })
	return g.Wait()
}

// FlushAll flushes what there is, due or not: for a process that does not Run.
func (c *Counters) FlushAll(ctx context.Context) error {
	return errors.Join(c.shares.FlushAll(ctx), c.flusher.FlushAll(ctx))
}

// eraseUser erases what hangs on a user's sessions, and what the user left on those of others, whose counts follow.
func (c *Counters) eraseUser(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	changed, err := engagement.EraseUserTx(ctx, tx, userID)
	c.engaged.Expect(changed...)
	return err
}
