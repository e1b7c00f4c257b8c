package aggregate

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Stats is what one cycle did.
type Stats struct {
	Due       int     `json:"due"`       // users with something to finalize
	Finalized int     `json:"finalized"` // users that were finalized
	Skipped   int     `json:"skipped"`   // users that another aggregator had
	Retried   int     `json:"retried"`   // users that the next cycle tries again, after a passing fault
	Failed    int     `json:"failed"`    // users whose data failed and who were set aside
	SetAside  int64   `json:"set_aside"` // users that are set aside at the end of the cycle
	Sessions  int     `json:"sessions"`  // sessions written, new or replaced
	Events    int     `json:"events"`    // hot events used
	Seconds   int64   `json:"seconds"`   // by how much all-time totals moved, added up
	TookS     float64 `json:"took_s"`    // length of the cycle in seconds
}

// rejectionsKept is how long refused events are remembered, by reason.
const rejectionsKept = 7 * 24 * time.Hour

// Aggregator finds the users that are due and finalizes them, several at a time.
type Aggregator struct {
	pool      *pgxpool.Pool
	finalizer *Finalizer
	log       *slog.Logger
	clock     clock.Clock
	parallel  int
	queries   *dbsqlc.Queries
}

// New makes an Aggregator that works on up to parallel users at a time, each on a connection of its own.
func New(pool *pgxpool.Pool, f *Finalizer, c clock.Clock, log *slog.Logger, parallel int) *Aggregator {
	return &Aggregator{pool: pool, finalizer: f, clock: c, log: log, parallel: max(parallel, 1), queries: dbsqlc.New()}
}

// Cycle finalizes whoever is due. now replaces Postgres's clock for the decision which runs have ended; nil leaves it to
// Postgres. One user's failure is not another's: an error means that the database could not be worked with at all.
func (a *Aggregator) Cycle(ctx context.Context, now *time.Time) (Stats, error) {
	start := a.clock.Now()
	due, err := a.queries.ScanDueUsers(ctx, a.pool, now)
	if err != nil {
		return Stats{}, fmt.Errorf("find due users: %w", err)
	}
	c := &cycle{Aggregator: a, now: now, stats: Stats{Due: len(due)}}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(a.parallel)
	for _, id := range due {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error { return c.user(gctx, id) })
	}
	err = g.Wait()
	if err == nil {
		err = a.tidy(ctx, &c.stats)
	}
	c.stats.TookS = a.clock.Now().Sub(start).Seconds()
	return c.stats, err
}

// cycle is one cycle under way.
type cycle struct {
	*Aggregator
	now   *time.Time
	mu    sync.Mutex
	stats Stats
}

// user finalizes one user and books the outcome. Only a database that cannot be reached ends the cycle.
func (c *cycle) user(ctx context.Context, id uuid.UUID) error {
	res, err := c.try(ctx, id)
	if err == nil {
		c.book(func(s *Stats) {
			if res.Locked {
				s.Skipped++
				return
			}
			s.Finalized++
			s.Sessions += res.Sessions
			s.Events += res.Events
			s.Seconds += res.Seconds
		})
		return nil
	}
	switch f := classify(err); f.kind {
	case faultData:
		c.book(func(s *Stats) { s.Failed++ })
		return c.setAside(ctx, id, f.reason)
	case faultPassing:
		c.log.WarnContext(ctx, "finalize user: will be tried again", "user_id", id, "reason", f.reason)
		c.book(func(s *Stats) { s.Retried++ })
		return nil
	default:
		return fmt.Errorf("finalize user: %w", err)
	}
}

// try finalizes a user; a panic on the way is a failure of that user's data, like any other.
func (c *cycle) try(ctx context.Context, id uuid.UUID) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			// What panicked could quote data: only the stack is logged.
			c.log.ErrorContext(ctx, "finalize user panicked", "user_id", id, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return c.finalizer.Finalize(ctx, c.pool, id, c.now)
}

func (c *cycle) book(fn func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(&c.stats)
}

// setAside keeps a user whose data fails out of the next cycles, longer after each failure, so that it holds up nobody.
func (c *cycle) setAside(ctx context.Context, id uuid.UUID, reason string) error {
	row, err := c.queries.ScanUpsertFailure(ctx, c.pool, id, reason)
	if err != nil {
		return fmt.Errorf("set user aside: %w", err)
	}
	c.log.ErrorContext(ctx, "user cannot be finalized and was set aside",
		"user_id", id, "reason", reason, "attempts", row.Attempts, "next_try_at", row.NextTryAt)
	return nil
}

// tidy drops rejections that are no longer shown and counts who is set aside.
func (a *Aggregator) tidy(ctx context.Context, s *Stats) error {
	if _, err := a.queries.ScanDeleteOldRejections(ctx, a.pool, int64(rejectionsKept.Seconds())); err != nil {
		return fmt.Errorf("delete old rejections: %w", err)
	}
	n, err := a.queries.ScanCountFailures(ctx, a.pool)
	if err != nil {
		return fmt.Errorf("count users set aside: %w", err)
	}
	s.SetAside = n
	return nil
}
