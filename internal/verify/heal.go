package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/store"
)

// lockWait bounds the wait for a user's writer lock: a finalize takes milliseconds, and who is busy for longer is found
// again by the next pass.
const lockWait = time.Second

// publishTimeout bounds the wait for boards that are being built meanwhile. Who is not published then stays pending.
const publishTimeout = 30 * time.Second

// heal repairs users, each in a transaction of its own, and publishes them. It returns those who were repaired: their
// repair is committed and in the outbox. One who cannot be repaired is logged and keeps nobody from it.
func (c *Checker) heal(ctx context.Context, repairs map[uuid.UUID]*aggregate.Repair) (map[uuid.UUID]bool, error) {
	healed := make(map[uuid.UUID]bool, len(repairs))
	ids := make([]uuid.UUID, 0, len(repairs))
	for id, r := range repairs {
		err := c.healUser(ctx, *r)
		if ctx.Err() != nil {
			return healed, ctx.Err()
		}
		if err != nil {
			c.Log.ErrorContext(ctx, "could not heal a user", "user_id", id, "err", err)
			continue
		}
		healed[id] = true
		ids = append(ids, id)
	}
	pctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	// One by one: a user whom some board does not take now is committed and pending, and keeps nobody from the pass.
	for _, id := range ids {
		err := c.Publisher.PublishUsers(pctx, c.Now, id)
		if ctx.Err() != nil || errors.Is(err, leaderboard.ErrAway) {
			return healed, fmt.Errorf("publish healed user: %w", errors.Join(err, ctx.Err()))
		}
		if err != nil {
			c.Log.WarnContext(ctx, "boards do not show a healed user yet", "user_id", id, "err", err)
		}
	}
	return healed, nil
}

// healUser repairs one user, alone with what is stored of them.
func (c *Checker) healUser(ctx context.Context, r aggregate.Repair) error {
	return store.WithWriterLock(ctx, c.DB, r.User, lockWait, func(ctx context.Context, tx pgx.Tx) error {
		return c.Finalizer.HealTx(ctx, tx, r)
	})
}
