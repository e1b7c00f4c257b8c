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
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
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
	due, err := a.queries.ScanDueUsers(ctx, store.PlanEachTime(a.pool), now)
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
		err = c.heavyUsers(ctx)
	}
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
	heavy []uuid.UUID // users with a great many events, who wait until the others are done
}

// user finalizes one user and books the outcome. Only a database that cannot be worked with ends the cycle.
func (c *cycle) user(ctx context.Context, id uuid.UUID) error {
	res, err := c.finalizeWithin(ctx, id, lightTimeout, lightEvents)
	if errors.Is(err, errHeavy) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heavy = append(c.heavy, id)
		return nil
	}
	return c.outcome(ctx, id, res, err)
}

// outcome books what became of a user.
func (c *cycle) outcome(ctx context.Context, id uuid.UUID, res Result, err error) error {
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
	if f.kind == faultConnection && !errors.Is(err, errAway) {
		// The database is well, and lost this user twice: its backend was killed, or the user took too long.
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
	heavyBudget  = 2 * time.Minute
	pingTimeout  = 3 * time.Second
)

// heavyUsers finalizes the users with a great many events one at a time, once everybody else is done. It begins with no
// further one when the budget is spent: the next cycle must come round for the others.
func (c *cycle) heavyUsers(ctx context.Context) error {
	start := c.clock.Now()
	for _, id := range c.heavy {
		if c.clock.Now().Sub(start) > heavyBudget {
			c.book(func(s *Stats) { s.Retried++ })
			continue
		}
		if err := c.heavyUser(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// heavyUser writes the attempt down before it is made: should it cost the process its life, the next cycle leaves that
// user be for a while and works for the others.
func (c *cycle) heavyUser(ctx context.Context, id uuid.UUID) error {
	rows, err := c.queries.ScanUpsertFailure(ctx, c.pool, errHeavy.Error(), id)
	if err != nil {
		return fmt.Errorf("write down the attempt: %w", err)
	}
	for _, r := range rows {
		c.log.WarnContext(ctx, "user has a great many events", "user_id", id, "attempts", r.Attempts)
	}
	res, err := c.finalizeWithin(ctx, id, heavyTimeout, math.MaxInt)
	if err == nil && res.Locked {
		if err := c.queries.ScanForgiveFailure(ctx, c.pool, id); err != nil {
			return fmt.Errorf("take back the attempt: %w", err)
		}
	}
	return c.outcome(ctx, id, res, err)
}

// finalizeWithin finalizes a user in a given time. Who loses the connection is tried once more: a server that restarted, or
// a network that was down, loses everybody who was under way, and that is nobody's fault. It fails with errAway when the
// connection was lost and the database does not answer.
func (c *cycle) finalizeWithin(ctx context.Context, id uuid.UUID, d time.Duration, maxEvents int) (Result, error) {
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for again := true; ; again = false {
		res, err := c.finalizer.finalize(within, c.pool, id, c.now, maxEvents)
		switch {
		case err == nil || classify(err).kind != faultConnection:
			return res, err
		case !c.databaseAnswers(ctx):
			return res, fmt.Errorf("%w: %w", errAway, err)
		case !again || within.Err() != nil:
			return res, err
		}
	}
}

// databaseAnswers asks on a connection of its own, since the pool's may all be at work. Those are given up: whatever cut one
// off may have cut off all, and a dead one would fail the next who takes it.
func (c *cycle) databaseAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	c.pool.Reset()
	conn, err := pgx.ConnectConfig(ctx, c.pool.Config().ConnConfig)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.Ping(ctx) == nil
}

func (c *cycle) book(fn func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(&c.stats)
}

// setAside keeps a user whose data fails out of the next cycles, longer after each failure, so that it holds up nobody.
func (c *cycle) setAside(ctx context.Context, id uuid.UUID, reason string) error {
	rows, err := c.queries.ScanUpsertFailure(ctx, c.pool, reason, id)
	if err != nil {
		return fmt.Errorf("set user aside: %w", err)
	}
	for _, r := range rows { // none for a user who was deleted meanwhile
		c.log.ErrorContext(ctx, "user cannot be finalized and was set aside",
			"user_id", id, "reason", reason, "attempts", r.Attempts, "next_try_at", r.NextTryAt)
	}
	return nil
}

// tidy drops rejections that are no longer shown, strikes out who is set aside for nothing, and counts who is set aside.
func (a *Aggregator) tidy(ctx context.Context, s *Stats) error {
	if _, err := a.queries.ScanDeleteOldRejections(ctx, a.pool, int64(rejectionsKept.Seconds())); err != nil {
		return fmt.Errorf("delete old rejections: %w", err)
	}
	if err := a.queries.ScanDeleteDoneFailures(ctx, a.pool); err != nil {
		return fmt.Errorf("strike out users who are done: %w", err)
	}
	n, err := a.queries.ScanCountFailures(ctx, a.pool)
	if err != nil {
		return fmt.Errorf("count users set aside: %w", err)
	}
	s.SetAside = n
	return nil
}
