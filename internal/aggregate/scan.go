package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	heavy sync.Mutex // held by the one user with a great many events who is worked on
}

// user finalizes one user and books the outcome. Only a database that cannot be worked with ends the cycle.
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
	var panicked *panicError
	if errors.As(err, &panicked) {
		c.log.ErrorContext(ctx, "finalize user panicked", "user_id", id, "stack", string(panicked.stack))
	}
	f := classify(err)
	if f.kind == faultConnection && c.databaseAnswers(ctx) {
		// The database is well, and lost this user: its backend was killed, or the user took too long.
		f.kind = faultData
	}
	switch f.kind {
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

// How long one user may take, and a question whether the database is there.
const (
	lightTimeout = time.Minute
	heavyTimeout = 15 * time.Minute
	pingTimeout  = 3 * time.Second
)

// try finalizes a user. One with a great many events is finalized alone, and only after the attempt was written down:
// should it cost the process its life, the next cycle leaves that user be for a while and works for the others.
func (c *cycle) try(ctx context.Context, id uuid.UUID) (Result, error) {
	res, err := c.finalizeWithin(ctx, id, lightTimeout, lightEvents)
	if !errors.Is(err, errHeavy) {
		return res, err
	}
	c.heavy.Lock()
	defer c.heavy.Unlock()
	row, err := c.queries.ScanUpsertFailure(ctx, c.pool, id, errHeavy.Error())
	if err != nil {
		return Result{}, fmt.Errorf("write down the attempt: %w", err)
	}
	c.log.WarnContext(ctx, "user has a great many events", "user_id", id, "attempts", row.Attempts)
	return c.finalizeWithin(ctx, id, heavyTimeout, math.MaxInt)
}

func (c *cycle) finalizeWithin(ctx context.Context, id uuid.UUID, d time.Duration, maxEvents int) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return c.finalizer.finalize(ctx, c.pool, id, c.now, maxEvents)
}

func (c *cycle) databaseAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return c.pool.Ping(ctx) == nil
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
