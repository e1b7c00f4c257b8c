package tests

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/writebehind"
)

// counterChildren are what a child does that dies, or is stopped, at a point of the trials of debounced counters. It says on
// standard output what it tries and what was answered.
var counterChildren = map[string]func(*counters, context.Context) error{
	"shares":                    (*counters).share,
	"shares without flush id":   func(c *counters, ctx context.Context) error { c.withoutID = true; return c.share(ctx) },
	"shares without processing": (*counters).shareNaively,
	"engage":                    (*counters).engage,
	"engage without deltas":     (*counters).engageNaively,
}

// counters are the debounced counters of one process.
type counters struct {
	pool      *pgxpool.Pool
	rdb       redis.UniversalClient
	flusher   *engagement.Flusher
	withoutID bool // the guard taken out: nobody remembers which flushes were applied
}

func newCounters(pool *pgxpool.Pool, rdb redis.UniversalClient) *counters {
	return &counters{pool: pool, rdb: rdb, flusher: engagement.NewFlusher(pool)}
}

func (c *counters) deltas() *writebehind.Deltas {
	apply := c.flusher.ApplyShares
	if c.withoutID {
		apply = func(ctx context.Context, f writebehind.Flush) error {
			_, err := dbsqlc.New().EngagementAddShares(ctx, c.pool, f.Records, f.Deltas)
			return err
		}
	}
	// A child flushes when it says so; others find at once what it left.
	cfg := writebehind.DebounceConfig{Delay: time.Millisecond, Grace: time.Millisecond, SweepEvery: 10 * time.Millisecond, CallTimeout: 10 * time.Second}
	return writebehind.NewDeltas("shares", cfg, writebehind.DeltasDeps{
		DB: c.pool, Redis: c.rdb, Clock: clock.System{}, Log: nopLogger(), ApplyFunc: apply,
	})
}

func (c *counters) arms() *writebehind.Arms {
	cfg := writebehind.DebounceConfig{Delay: time.Millisecond, Grace: time.Millisecond, SweepEvery: 10 * time.Millisecond, CallTimeout: 10 * time.Second}
	return writebehind.NewArms("engaged", cfg, writebehind.ArmsDeps{
		Redis: c.rdb, Clock: clock.System{}, Log: nopLogger(), FlushFunc: c.flusher.FlushDeltas,
		StaleFunc: func(ctx context.Context, most int) ([]uuid.UUID, error) {
			rows, err := c.pool.Query(ctx, `SELECT DISTINCT session_id FROM counter_deltas LIMIT $1`, most)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		},
	})
}

// flushNow flushes what a process has in memory, as at its end.
func flushNow(ctx context.Context, r interface{ Run(context.Context) error }) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return r.Run(ended)
}

func (c *counters) ids(ctx context.Context, sql string) ([]uuid.UUID, error) {
	rows, err := c.pool.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// try says that something is tried, and then that it was answered.
func try(what any, fn func() error) error {
	fmt.Println("try", what)
	if err := fn(); err != nil {
		return err
	}
	fmt.Println("ok", what)
	return nil
}

// share is two bursts of shares of three sessions, each with its flush.
func (c *counters) share(ctx context.Context) error {
	sessions, err := c.ids(ctx, `SELECT id FROM sessions ORDER BY id`)
	if err != nil {
		return err
	}
	d := c.deltas()
	for range 2 {
		for i := range 2 * len(sessions) {
			s := sessions[i%len(sessions)]
			if err := try(s, func() error { return d.Add(ctx, s, 1) }); err != nil {
				return err
			}
		}
		if err := flushNow(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// shareNaively takes each delta out of Redis and then writes it.
func (c *counters) shareNaively(ctx context.Context) error {
	sessions, err := c.ids(ctx, `SELECT id FROM sessions ORDER BY id`)
	if err != nil {
		return err
	}
	for range 2 {
		for i := range 2 * len(sessions) {
			s := sessions[i%len(sessions)]
			if err := try(s, func() error { return c.rdb.HIncrBy(ctx, naiveShares, s.String(), 1).Err() }); err != nil {
				return err
			}
		}
		if err := c.flushNaively(ctx, sessions); err != nil {
			return err
		}
	}
	return nil
}

// naiveShares is the hash of the variant without processing entries.
const naiveShares = "naive-shares"

func (c *counters) flushNaively(ctx context.Context, sessions []uuid.UUID) error {
	for _, s := range sessions {
		n, err := c.rdb.HGet(ctx, naiveShares, s.String()).Int64()
		if err == redis.Nil { //nolint:errorlint // it is never wrapped
			continue
		}
		if err != nil {
			return err
		}
		if err := c.rdb.HDel(ctx, naiveShares, s.String()).Err(); err != nil {
			return err
		}
		if _, err := dbsqlc.New().EngagementAddShares(ctx, c.pool, []uuid.UUID{s}, []int64{n}); err != nil {
			return err
		}
	}
	return nil
}

// engage is two bursts of kudos and comments, some of them taken back, each with its flush.
func (c *counters) engage(ctx context.Context) error {
	arms := c.arms()
	service := engagement.NewService(c.pool, c.deltas(), arms, nopLogger())
	return c.engageWith(ctx, func(user, session uuid.UUID, give bool) error {
		_, err := service.Kudos(ctx, user, session, give)
		return err
	}, func(user, session uuid.UUID, again bool) error {
		made, _, err := service.Comment(ctx, user, session, "x")
		if err != nil || again {
			return err
		}
		return service.DeleteComment(ctx, user, made.ID)
	}, func() error { return flushNow(ctx, arms) })
}

// engageNaively counts a row in a transaction of its own, after the row's.
func (c *counters) engageNaively(ctx context.Context) error {
	count := func(session uuid.UUID, column string, n int) error {
		_, err := c.pool.Exec(ctx, `UPDATE session_counters SET `+column+` = `+column+` + $2 WHERE session_id = $1`, session, n)
		return err
	}
	return c.engageWith(ctx, func(user, session uuid.UUID, give bool) error {
		sql, n := `INSERT INTO kudos (owner_id, session_id, user_id) SELECT user_id, id, $2 FROM sessions WHERE id = $1 ON CONFLICT DO NOTHING`, 1
		if !give {
			sql, n = `DELETE FROM kudos WHERE session_id = $1 AND user_id = $2`, -1
		}
		tag, err := c.pool.Exec(ctx, sql, session, user)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return count(session, "kudos", n)
	}, func(user, session uuid.UUID, _ bool) error {
		_, err := c.pool.Exec(ctx, `INSERT INTO comments (id, owner_id, session_id, author_id, body)
			SELECT gen_random_uuid(), user_id, id, $2, 'x' FROM sessions WHERE id = $1`, session, user)
		if err != nil {
			return err
		}
		return count(session, "comments", 1)
	}, func() error { return nil })
}

func (c *counters) engageWith(ctx context.Context, kudos, comment func(user, session uuid.UUID, again bool) error, flush func() error) error {
	sessions, err := c.ids(ctx, `SELECT id FROM sessions ORDER BY id`)
	if err != nil {
		return err
	}
	users, err := c.ids(ctx, `SELECT id FROM users WHERE handle LIKE 'giver-%' ORDER BY id`)
	if err != nil {
		return err
	}
	for burst := range 2 {
		for i, u := range users {
			s := sessions[i%len(sessions)]
			if err := try(s, func() error { return kudos(u, s, i != burst) }); err != nil {
				return err
			}
			if err := try(s, func() error { return comment(u, s, i > 0) }); err != nil {
				return err
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}
