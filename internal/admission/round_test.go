package admission

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/localstack"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/views"
	"github.com/commma/commma/internal/writebehind"
)

// requireOneTrip admits a user whose token is cached, and counts.
func requireOneTrip(t *testing.T, b *bundle, u user) {
	t.Helper()
	before, asked := b.trips.Load(), b.db.asked.Load()
	b.mustAdmit(t, u)
	require.Equal(t, int64(1), b.trips.Load()-before, "round trips to Redis")
	require.Equal(t, asked, b.db.asked.Load(), "questions to Postgres")
}

func TestGoodRequestIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	b := setup(t)
	u := b.mustUser(t, activity.ModeFull)
	b.mustAdmit(t, u) // connects, and fills
	for range 3 {
		requireOneTrip(t, b, u)
	}
	before := b.trips.Load()
	_, err := b.AdmitAnonymous(t.Context(), ScopeRead, home)
	require.NoError(t, err)
	require.Equal(t, int64(1), b.trips.Load()-before)
}

func TestWithoutALimitIsOneRoundTripToo(t *testing.T) {
	t.Parallel()
	b := setup(t, withLimits(0))
	u := b.mustUser(t, activity.ModeFull)
	b.mustAdmit(t, u)
	requireOneTrip(t, b, u)
}

// A server that has forgotten the script is sent it once.
func TestScriptIsLoadedAgain(t *testing.T) {
	t.Parallel()
	trips := new(atomic.Int64)
	_, option := ownRedis(t, trips)
	b := setup(t, option)
	b.trips = trips
	u := b.mustUser(t, activity.ModeFull)
	b.mustAdmit(t, u)
	requireOneTrip(t, b, u)
	require.NoError(t, b.rdb.ScriptFlush(t.Context()).Err())
	before := trips.Load()
	g := b.mustAdmit(t, u)
	require.Equal(t, int64(3), trips.Load()-before, "the round, and each script once")
	require.Equal(t, 997, g.Limit.Remaining, "it counts once")
	require.Equal(t, activity.ModeFull, g.Mode)
	requireOneTrip(t, b, u)
}

// clusterRedis is a cluster of one node: it refuses commands and pipelined scripts whose keys lie in different slots.
func clusterRedis(t *testing.T, trips *atomic.Int64) *redis.ClusterClient {
	t.Helper()
	server, err := localstack.StartRedis(t.Context(), localstack.RedisOptions{
		Dir: filepath.Join(t.TempDir(), "redis"), Settings: map[string]string{"cluster-enabled": "yes"},
	})
	require.NoError(t, err)
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { require.NoError(t, server.Kill(ctx)) })
	u, err := url.Parse(server.URL())
	require.NoError(t, err)
	password, _ := u.User.Password()
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{u.Host}, Password: password, ContextTimeoutEnabled: true, Dialer: countingDialer(trips),
	})
	t.Cleanup(func() { _ = c.Close() })
	node := mustRedis(t, server.URL(), new(atomic.Int64))
	require.NoError(t, node.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	require.Eventually(t, func() bool {
		return strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, 20*time.Second, 20*time.Millisecond)
	return c
}

func TestOneRoundTripOnACluster(t *testing.T) {
	t.Parallel()
	trips := new(atomic.Int64)
	b := setup(t, func(t *testing.T, _ *Config, d *Deps) { d.Redis = clusterRedis(t, trips) })
	b.trips = trips
	for range 3 {
		u := b.mustUser(t, activity.ModeFull)
		b.mustAdmit(t, u)
		requireOneTrip(t, b, u)
		_, err := b.ask(t, u.otherSecret(), ScopeIngest)
		requireCode(t, err, CodeUnauthorized)
		_, err = b.deps.Modes.Put(t.Context(), u.id, privacy.Entry{Version: 1, Mode: activity.ModeOff})
		require.NoError(t, err)
		require.Equal(t, activity.ModeOff, b.mustAdmit(t, u).Mode)
	}
	require.Empty(t, b.seen.failures)
	slot := func(key string) int64 { return b.rdb.ClusterKeySlot(t.Context(), key).Val() }
	u := b.mustUser(t, activity.ModeFull)
	b.mustAdmit(t, u)
	require.Equal(t, slot(authKey(b.shards, u.id)), slot(privacy.Key(b.shards, u.id)))
	require.Equal(t, slot(authKey(b.shards, u.id)), slot("seen:"+b.shards.Tag(u.id)+":"+u.id.String()))
	require.Equal(t, slot(authKey(b.shards, u.id)), slot(writebehind.KeysOf(lastseen.Name, b.shards.Of(u.id)).Buf))
	require.Positive(t, b.noted(t, u))
	requireFlushed(t, b, u)
	require.Equal(t, slot(authKey(b.shards, u.id)), slot("rate:"+userLimitKey(b.shards, u.id, HashToken(u.token), ScopeIngest)))
}

// requireFlushed looks at a user's profile and flushes that and what was noted, in all shards of the cluster.
func requireFlushed(t *testing.T, b *bundle, u user) {
	t.Helper()
	pool := testenv.Postgres(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO user_counters (user_id) VALUES ($1)`, u.id)
	require.NoError(t, err)
	recorder := views.NewRecorder(b.rdb, b.clock, testenv.Logger(t), views.RecorderConfig{Timeout: time.Minute})
	require.True(t, recorder.Record(t.Context(), views.Viewer{}, views.Target{Owner: u.id}))
	flusher := writebehind.NewFlusher(pool, b.rdb, b.clock, views.Kind(), lastseen.Kind())
	stats, err := flusher.Flush(t.Context())
	require.NoError(t, err)
	require.Positive(t, stats[lastseen.Name].Entries)
	require.Equal(t, 1, stats[views.Name].Entries)
	var flushed int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM user_counters WHERE views = 1 AND last_seen_at = $1`, b.clock.Now()).Scan(&flushed))
	require.Equal(t, 1, flushed)
	require.NoError(t, recorder.Forget(t.Context(), u.id))
	stats, err = flusher.Flush(t.Context())
	require.NoError(t, err)
	require.Empty(t, stats)
}
