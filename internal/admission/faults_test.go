package admission

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/testenv"
)

// ownRedis gives the Admitter a server that may be stopped.
func ownRedis(t *testing.T, trips *atomic.Int64) (testenv.Server, option) {
	t.Helper()
	server := testenv.OwnRedis(t)
	return server, func(t *testing.T, cfg *Config, d *Deps) {
		d.Redis = mustRedis(t, server.URL(), trips)
		cfg.BreakerOpen = time.Hour // until a test says otherwise
	}
}

func withLimits(perHour int) option {
	return func(_ *testing.T, cfg *Config, _ *Deps) {
		cfg.PerHour = map[Scope]int{ScopeIngest: perHour}
		cfg.FailedAuthPerHour = perHour
	}
}

// requireLimitedByItself asks until the local limit of two is reached.
func requireLimitedByItself(t *testing.T, b *bundle, u user) {
	t.Helper()
	for range 2 {
		g := b.mustAdmit(t, u)
		require.Equal(t, activity.ModeSummary, g.Mode, "Postgres was asked anyway")
		require.Equal(t, 2, g.Limit.Limit)
	}
	_, err := b.ask(t, u.token, ScopeIngest)
	require.Positive(t, mustRefusal(t, err, CodeRateLimited).Limit.RetryAfter)
	for _, want := range []Code{CodeUnauthorized, CodeUnauthorized, CodeRateLimited} {
		_, err := b.ask(t, u.otherSecret(), ScopeIngest)
		requireCode(t, err, want)
	}
	// Nothing is cached without Redis: who has a good token must not pay for a neighbour's guesses.
	b.mustAdmit(t, b.mustUser(t, activity.ModeSummary))
}

func TestRedisDown(t *testing.T) {
	t.Parallel()
	server, option := ownRedis(t, new(atomic.Int64))
	b := setup(t, option, withLimits(2))
	u := b.mustUser(t, activity.ModeSummary)
	require.NoError(t, server.Stop(t.Context()))
	requireLimitedByItself(t, b, u)
	require.Equal(t, []bool{true}, b.seen.breaker)
	require.Equal(t, []Step{StepAsk}, b.seen.failures, "while Redis is given up nothing is tried")
	require.Equal(t, 1, strings.Count(b.log.String(), "without Redis"))
}

// A Redis that accepts and never answers costs the first request its deadline, and the next ones nothing.
func TestRedisHung(t *testing.T) {
	t.Parallel()
	server, option := ownRedis(t, new(atomic.Int64))
	b := setup(t, option, withLimits(2), func(_ *testing.T, cfg *Config, _ *Deps) { cfg.BreakerOpen = 2 * time.Second })
	u := b.mustUser(t, activity.ModeSummary)
	require.NoError(t, b.rdb.Ping(t.Context()).Err())
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })

	require.Less(t, elapsed(func() { b.mustAdmit(t, u) }), b.config.RedisTimeout+time.Second)
	require.Less(t, elapsed(func() { b.mustAdmit(t, u) }), b.config.RedisTimeout/2)
	_, err := b.ask(t, u.token, ScopeIngest)
	requireCode(t, err, CodeRateLimited)

	require.NoError(t, server.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool {
		g, err := b.ask(t, u.token, ScopeIngest)
		return err == nil && g.UserID == u.id && b.breaker.Counts().TotalSuccesses > 0
	}, 20*time.Second, 50*time.Millisecond, "Redis is back, and knows nothing of what was limited without it")
	require.False(t, b.seen.breaker[len(b.seen.breaker)-1])
}

func elapsed(fn func()) time.Duration {
	start := clock.System{}.Now()
	fn()
	return clock.System{}.Now().Sub(start)
}

// A Redis that is full still answers what it knows. It is not given up for that.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	_, option := ownRedis(t, new(atomic.Int64))
	b := setup(t, option, withLimits(2))
	u := b.mustUser(t, activity.ModeSummary)
	h := HashToken(u.token)
	require.NoError(t, b.rdb.Set(t.Context(), authKey(b.shards, u.id), h[:], 0).Err())
	require.NoError(t, b.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for range 2 {
		require.Equal(t, 2, b.mustAdmit(t, u).Limit.Limit)
	}
	_, err := b.ask(t, u.token, ScopeIngest)
	requireCode(t, err, CodeRateLimited)
	require.Zero(t, b.db.asked.Load(), "the token is cached")
	for _, want := range []Code{CodeUnauthorized, CodeUnauthorized, CodeRateLimited} {
		_, err := b.ask(t, "", ScopeIngest)
		requireCode(t, err, want)
	}
	require.Empty(t, b.seen.breaker)
	require.Contains(t, b.seen.failures, StepLimit)
}

func TestPostgresDown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	u, cold := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	b.mustAdmit(t, u)
	b.deps.DB = brokenDB{}
	b.mustAdmit(t, u)
	_, err := b.ask(t, cold.token, ScopeIngest)
	require.ErrorContains(t, mustRefusal(t, err, CodeUnavailable), "gone")
	_, err = b.ask(t, "", ScopeIngest)
	requireCode(t, err, CodeUnauthorized)
}

func TestPostgresHung(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	pool, err := pgxpool.New(t.Context(), "postgres://u@"+listener.Addr().String()+"/d?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b := setup(t, func(_ *testing.T, cfg *Config, d *Deps) {
		d.DB = pool
		cfg.PostgresTimeout = 100 * time.Millisecond
	})
	u := user{id: [16]byte{1}}
	u.token = NewToken(u.id)
	require.Less(t, elapsed(func() {
		_, err := b.ask(t, u.token, ScopeIngest)
		requireCode(t, err, CodeUnavailable)
	}), 3*time.Second)
}

// A client that gives up says nothing about Redis.
func TestAbandonedRequestDoesNotGiveRedisUp(t *testing.T) {
	t.Parallel()
	server, option := ownRedis(t, new(atomic.Int64))
	b := setup(t, option)
	u := b.mustUser(t, activity.ModeFull)
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := b.Admit(ctx, Request{Token: u.token, Scope: ScopeIngest, Addr: home})
	requireCode(t, err, CodeUnavailable)
	require.Empty(t, b.seen.breaker)
	require.Empty(t, b.seen.failures)
}
