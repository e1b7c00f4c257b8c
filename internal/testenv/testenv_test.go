package testenv_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const countTables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public' AND table_name = $1"

func TestEachTestHasItsOwn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "b", "c"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, rdb := testenv.Postgres(t), testenv.Redis(t)
			var n int
			require.NoError(t, pool.QueryRow(t.Context(), countTables, "users").Scan(&n))
			require.Equal(t, 1, n, "not migrated")
			_, err := pool.Exec(t.Context(), "CREATE TABLE mine (n int)") // fails where another test's is seen
			require.NoError(t, err)
			require.Zero(t, rdb.DBSize(t.Context()).Val())
			require.NoError(t, rdb.Set(t.Context(), "mine", 1, 0).Err())
		})
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	var url, database string
	t.Run("inner", func(t *testing.T) {
		pool := testenv.Postgres(t)
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&database))
		// A connection that the test forgets must not keep its database alive.
		conn, err := pgx.Connect(t.Context(), testenv.PostgresURL(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		url = testenv.RedisURL(t)
		require.NoError(t, client(t, url).Set(t.Context(), "mine", 1, 0).Err())
	})
	var n int
	require.NoError(t, testenv.Postgres(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1", database).Scan(&n))
	require.Zero(t, n)
	require.Zero(t, client(t, url).DBSize(t.Context()).Val())
}

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestOwnRedis(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t)
	c := client(t, s.URL())
	require.NoError(t, c.Set(t.Context(), "lost", 1, 0).Err())
	require.NoError(t, s.Kill(t.Context()))
	require.Error(t, c.Ping(t.Context()).Err())
	require.NoError(t, s.Restart(t.Context()))
	require.Zero(t, c.DBSize(t.Context()).Val())

	require.NoError(t, s.Signal(syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, c.Ping(ctx).Err())
	require.NoError(t, s.Signal(syscall.SIGCONT))
	require.NoError(t, c.Ping(t.Context()).Err())
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, s.Stop(t.Context()))
}

func TestOwnDurableRedis(t *testing.T) {
	t.Parallel()
	s := testenv.OwnDurableRedis(t)
	c := client(t, s.URL())
	require.NoError(t, c.ConfigSet(t.Context(), "appendfsync", "always").Err())
	require.NoError(t, c.Set(t.Context(), "kept", 1, 0).Err())
	require.NoError(t, s.Kill(t.Context()))
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, "1", c.Get(t.Context(), "kept").Val())
}

func TestOwnPostgres(t *testing.T) {
	t.Parallel()
	s := testenv.OwnPostgres(t)
	exec := func(sql string, args ...any) (n int) {
		conn, err := pgx.Connect(t.Context(), s.URL())
		require.NoError(t, err)
		defer func() { _ = conn.Close(t.Context()) }()
		require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&n))
		return n
	}
	require.Equal(t, 1, exec(countTables, "users"))
	require.NoError(t, s.Kill(t.Context()))
	_, err := pgx.Connect(t.Context(), s.URL())
	require.Error(t, err)
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, 1, exec(countTables, "users"))
}

// A loop that logs once more after its test has ended would make the testing package panic.
func TestLoggerOutlivesItsTest(t *testing.T) {
	t.Parallel()
	var after func()
	t.Run("inner", func(t *testing.T) {
		log := testenv.Logger(t)
		log.InfoContext(t.Context(), "seen")
		ctx := context.WithoutCancel(t.Context())
		after = func() { log.InfoContext(ctx, "not seen") }
	})
	after()
}
