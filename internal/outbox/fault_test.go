package outbox

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/localstack"
	"github.com/commma/commma/internal/testenv"
)

// testCluster is a Redis Cluster of one node that has all slots.
func testCluster(t *testing.T) *redis.ClusterClient {
	server, err := localstack.StartRedis(t.Context(), localstack.RedisOptions{
		Dir: t.TempDir(), Settings: map[string]string{"cluster-enabled": "yes", "appendonly": "no"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		require.NoError(t, server.Kill(ctx))
	})
	node := openRedis(t, server.URL())
	require.NoError(t, node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	require.Eventually(t, func() bool {
		info, err := node.ClusterInfo(t.Context()).Result()
		return err == nil && len(info) > 16 && info[:16] == "cluster_state:ok"
	}, 20*time.Second, 20*time.Millisecond)
	o, err := redis.ParseClusterURL(server.URL())
	require.NoError(t, err)
	c := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// killer kills a Redis server at a given call: before it is sent, or after it was answered and before we see that.
type killer struct {
	kill  func()
	at    int
	after bool
	calls int
}

func (k *killer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (k *killer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return k.around(func() error { return next(ctx, cmd) })
	}
}

func (k *killer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := k.around(func() error { return next(ctx, cmds) })
		if err == net.ErrClosed { //nolint:errorlint // it is our own
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (k *killer) around(call func() error) error {
	k.calls++
	if k.calls != k.at {
		return call()
	}
	if k.after {
		_ = call()
	}
	k.kill()
	if k.after {
		return net.ErrClosed
	}
	return call()
}

// TestRedisKilledAtEveryCall of a cycle that publishes two pages of users, before the call and after it, with a data set
// that is lost and one that survives. Nobody is lost, and after the next cycle the boards are the totals.
func TestRedisKilledAtEveryCall(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) testenv.Server{
		"lost": testenv.OwnRedis, "kept": testenv.OwnDurableRedis,
	} {
		for _, after := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := start(t)
				f := fixtureOn(t, openRedis(t, server.URL()))
				f.users(pageUsers + 20)
				for at := 1; ; at++ {
					f.exec(`UPDATE users SET version = version + 1`)
					f.exec(`INSERT INTO totals SELECT u.id, b.period, b.starts_on::date, lang, 1 + ($1 + abs(hashtext(u.id::text))) % 90
						FROM users u CROSS JOIN (VALUES ('day', '2026-06-17'), ('alltime', '1970-01-01')) AS b (period, starts_on)
						CROSS JOIN unnest(ARRAY['', 'c++']) AS lang
						ON CONFLICT (user_id, period, starts_on, lang) DO UPDATE SET seconds = excluded.seconds`, at)
					f.exec(`INSERT INTO outbox SELECT id, version FROM users
						ON CONFLICT (user_id) DO UPDATE SET version = excluded.version`)
					k := &killer{at: at, after: after, kill: func() { require.NoError(t, server.Kill(t.Context())) }}
					client := openRedis(t, server.URL())
					client.AddHook(k)
					_, err := newProcess(f.pool, client).publisher.Cycle(t.Context(), &noon)
					if k.calls < at { // the cycle was over before
						require.NoError(t, err)
						require.Greater(t, at, 4)
						break
					}
					require.Error(t, err)
					_, err = f.publisher.Cycle(t.Context(), &noon)
					require.Error(t, err, "Redis is away")
					require.NoError(t, server.Restart(t.Context()))
					// A client that was refused often looks only once a second whether the server is back.
					require.Eventually(t, func() bool { return f.rdb.Ping(t.Context()).Err() == nil }, 20*time.Second, 20*time.Millisecond)
					f.cycle()
					require.Zero(t, f.pending())
					f.requireBoards(false)
				}
			})
		}
	}
}

// TestLostWritesOfARestartedServer: a server that comes back with the data set of a minute ago has boards that look
// whole, and whose last publications are gone from the outbox.
func TestLostWritesOfARestartedServer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnDurableRedis(t)
	f := fixtureOn(t, openRedis(t, server.URL()))
	day := spread("go")[0]
	f.change(f.user(1), 60, day)
	f.cycle()
	// What a server would have lost: the board is put back to its older state behind our back, and the server restarts.
	keys, err := f.rdb.Keys(t.Context(), "{lb:day:*}:[zm]").Result()
	require.NoError(t, err)
	older := map[string]string{}
	for _, key := range keys {
		older[key] = f.rdb.Dump(t.Context(), key).Val()
	}
	f.change(userID(1), 90, day)
	f.cycle()
	for key, dump := range older {
		require.NoError(t, f.rdb.RestoreReplace(t.Context(), key, time.Hour, dump).Err())
	}
	scores, whole := f.scores(day)
	require.True(t, whole)
	require.EqualValues(t, 60, scores[userID(1)], "the same run: only the totals could tell")
	require.NoError(t, server.Kill(t.Context()))
	require.NoError(t, server.Restart(t.Context()))
	require.Eventually(t, func() bool { return f.rdb.Ping(t.Context()).Err() == nil }, 20*time.Second, 20*time.Millisecond)
	_, whole = f.scores(day)
	require.False(t, whole, "another run does not vouch for it")
	f.cycle()
	f.requireBoards(false)
}

// TestRedisEmptiedUnderReaders: pages are whole at every moment of it.
func TestRedisEmptiedUnderReaders(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const users = 60
	f.users(users)
	for n := 1; n <= users; n++ {
		f.change(userID(n), int64(n), spread("go")...)
	}
	f.cycle()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan int, 1)
	reader := leaderboard.NewReader(f.pool, f.rdb, leaderboard.ReaderConfig{RedisTimeout: 5 * time.Second})
	go func() {
		defer close(failed)
		for ctx.Err() == nil {
			p, err := reader.Page(t.Context(), noon, spread("go")[1], leaderboard.Query{Limit: 100})
			if err != nil || len(p.Entries) != users {
				failed <- len(p.Entries)
				return
			}
		}
	}()
	for range 5 {
		require.NoError(t, f.rdb.FlushDB(t.Context()).Err())
		f.change(userID(1), 7, spread("go")...)
		f.cycle()
	}
	cancel()
	for n := range failed {
		require.Fail(t, "a page was not whole", "%d entries", n)
	}
	f.requireBoards(false)
}
