package aggregate

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// PruneConfig bounds the archive. Zero values mean the defaults.
type PruneConfig struct {
	// DefaultAge is how far back events are accepted at least; 30 days, as the wire has it.
	DefaultAge time.Duration
	// Slack is how much longer archives are kept; a day.
	Slack time.Duration
	// Margin is how long the horizon stands before anything is pruned up to it. It must be far longer than a storing
	// transaction may take; an hour.
	Margin time.Duration
	// Rows is how many archive rows are looked at at a time; 2,000.
	Rows int32
}

func (c PruneConfig) withDefaults() PruneConfig {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.DefaultAge, 720 * time.Hour}, {&c.Slack, 24 * time.Hour}, {&c.Margin, time.Hour},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.Rows <= 0 {
		c.Rows = 2000
	}
	return c
}

// Pruner keeps the archive bounded. Any number of them may run.
//
// What it relies on: an event that is stored lies on or after the horizon that its transaction read. The horizon only
// grows, and it settles only after it has stood for a margin, so every event from before the settled horizon that will
// ever be stored is stored by now: it is hot, and holds up the pruning of its user, or it is in a session. A session
// that ended more than the idle time before the settled horizon can be reached by no event from the horizon on.
type Pruner struct {
	pool *pgxpool.Pool
	cfg  PruneConfig
	lock lockFunc
}

// NewPruner makes a Pruner.
func NewPruner(pool *pgxpool.Pool, cfg PruneConfig) *Pruner {
	return &Pruner{pool: pool, cfg: cfg.withDefaults(), lock: store.TryWriterLock}
}

// Prune moves the horizon if it is time, and deletes archives that no later event could touch, of some users at a time.
// It returns how many archive rows it deleted.
func (p *Pruner) Prune(ctx context.Context) (int64, error) {
	q := dbsqlc.New()
	args := dbsqlc.PruneAdvanceHorizonParams{
		SlackS: wholeSeconds(p.cfg.Slack), DefaultAgeS: wholeSeconds(p.cfg.DefaultAge), MarginS: wholeSeconds(p.cfg.Margin),
	}
	if err := q.PruneAdvanceHorizon(ctx, p.pool, args); err != nil {
		return 0, fmt.Errorf("advance horizon: %w", err)
	}
	settled, err := q.PruneGetSettled(ctx, p.pool)
	if err != nil {
		return 0, fmt.Errorf("read horizon: %w", err)
	}
	var pruned int64
	for range roundsPerPrune {
		n, err := p.pruneSome(ctx, settled)
		pruned += n
		if err != nil {
			return pruned, err
		}
		if n == 0 {
			break // nothing is left, or others have who is
		}
	}
	if _, err := q.PruneStretches(ctx, store.PlanEachTime(p.pool), settled); err != nil {
		return pruned, fmt.Errorf("forget deleted stretches: %w", err)
	}
	return pruned, nil
}

// roundsPerPrune bounds one call.
const roundsPerPrune = 100

// pruneSome deletes about PruneConfig.Rows rows, the oldest.
func (p *Pruner) pruneSome(ctx context.Context, settled int64) (pruned int64, err error) {
	users, err := dbsqlc.New().PruneListUsers(ctx, store.PlanEachTime(p.pool), settled, p.cfg.Rows)
	if err != nil {
		return 0, fmt.Errorf("list prunable users: %w", err)
	}
	for _, id := range users {
		n, err := p.pruneUser(ctx, id, settled)
		if err != nil {
			return pruned, err
		}
		pruned += n
	}
	return pruned, nil
}

// pruneUser does nothing for a user that somebody else has.
func (p *Pruner) pruneUser(ctx context.Context, userID uuid.UUID, settled int64) (n int64, err error) {
	err = store.WithTx(ctx, p.pool, func(ctx context.Context, tx pgx.Tx) error {
		got, err := p.lock(ctx, tx, userID)
		if err != nil || !got {
			return err
		}
		n, err = dbsqlc.New().PruneUser(ctx, tx, userID, settled)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune user: %w", err)
	}
	return n, nil
}

// DeclareAge says that this process accepts events of up to an age, so that the horizon stays behind them. It must be
// said again within a day.
func DeclareAge(ctx context.Context, db dbsqlc.DBTX, age time.Duration) error {
	if err := dbsqlc.New().PruneUpsertAge(ctx, db, wholeSeconds(age)); err != nil {
		return fmt.Errorf("declare accepted age: %w", err)
	}
	return nil
}

func wholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }
