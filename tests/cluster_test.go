package tests

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/localstack"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
)

// clusterNodes is how many masters share the slots.
const clusterNodes = 3

// newRedisCluster starts a cluster and returns the URL of all its nodes.
func newRedisCluster(t *testing.T) string {
	t.Helper()
	nodes := make([]*redis.Client, clusterNodes)
	var urls []string
	for i := range nodes {
		server, err := localstack.StartRedis(t.Context(), localstack.RedisOptions{Dir: t.TempDir(), Settings: map[string]string{
			"cluster-enabled": "yes", "appendonly": "no", "cluster-port": freePort(t),
		}})
		require.NoError(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
			defer cancel()
			require.NoError(t, server.Kill(ctx))
		})
		o, err := redis.ParseURL(server.URL())
		require.NoError(t, err)
		nodes[i] = redis.NewClient(o)
		t.Cleanup(func() { _ = nodes[i].Close() })
		urls = append(urls, o.Addr)
		shareSlots(t, nodes, i)
		if i == 0 {
			urls[0] = strings.TrimSuffix(server.URL(), "/0")
		}
		// All nodes have the first one's password, as a cluster's must.
		first := nodes[0].Options().Password
		require.NoError(t, nodes[i].ConfigSet(t.Context(), "requirepass", first).Err())
		nodes[i].Options().Password = first
	}
	for _, node := range nodes {
		require.Eventually(t, func() bool {
			info, err := node.ClusterInfo(t.Context()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(clusterNodes))
		}, time.Minute, 50*time.Millisecond)
	}
	return urls[0] + "?addr=" + strings.Join(urls[1:], "&addr=")
}

// shareSlots gives node i its share of the slots, and has it meet the first.
func shareSlots(t *testing.T, nodes []*redis.Client, i int) {
	t.Helper()
	const slots = 16384
	require.NoError(t, nodes[i].ClusterAddSlotsRange(t.Context(), slots*i/clusterNodes, slots*(i+1)/clusterNodes-1).Err())
	if i == 0 {
		return
	}
	host, port, err := net.SplitHostPort(nodes[0].Options().Addr)
	require.NoError(t, err)
	bus, err := nodes[0].ConfigGet(t.Context(), "cluster-port").Result()
	require.NoError(t, err)
	require.NoError(t, nodes[i].Do(t.Context(), "CLUSTER", "MEET", host, port, bus["cluster-port"]).Err())
}

// freePort is a port that nobody listened on a moment ago. A node's own, with 10,000 added, may be more than there are.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// On a cluster of several nodes everything works as on one server: several APIs and workers, boards, limits, modes, and all
// that is written behind.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	s := sceneOf(&stack{t: t, database: testenv.PostgresURL(t), rdb: newRedisCluster(t)})
	one, _ := s.serve("--no-aggregate")
	two, _ := s.serve("--no-aggregate")
	const users = 24 // enough to be on all nodes
	accounts := make([]createdUser, users)
	first := clock.System{}.Now().Add(-3 * time.Hour).Truncate(time.Second)
	for i := range accounts {
		accounts[i] = s.createUser(fmt.Sprintf("user-%d", i), "UTC")
		at := []time.Time{first, first.Add(time.Duration(i+1) * time.Second)}
		upload(t, []string{one, two}[i%2], accounts[i], at...)
		s.seconds[uuid.MustParse(accounts[i].ID)] = []int64{at[0].Unix(), at[1].Unix()}
	}
	s.workerOnce()
	requireClean(t, s.standing(s.pool, s.spans()))

	for i, u := range accounts {
		next := accounts[(i+1)%users]
		engage(t, []string{one, two}[i%2], u, next)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, two+"/v1/users/"+u.Handle, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+next.Token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "true", res.Header.Get("X-View-Recorded"))
	}
	s.workerOnce()
	require.Equal(t, int64(users), rows[struct{ N int64 }](t, s.pool, `SELECT sum(views)::bigint FROM user_counters`)[0].N)
	require.Equal(t, int64(2*users), rows[struct{ N int64 }](t, s.pool, `SELECT sum(shares)::bigint FROM session_counters`)[0].N)
	require.Equal(t, foundCounts{Sessions: users}, runJSON[foundCounts](s.stack, "counters", "verify"))
	require.Equal(t, int64(users), rows[struct{ N int64 }](t, s.pool, `SELECT count(last_seen_at) FROM user_counters`)[0].N)

	s.requireLeaves(one, two, accounts)
	s.forEachNode(func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() })
	s.workerOnce()
	requireClean(t, s.standing(s.pool, s.spans()))
}

func requireClean(t *testing.T, found tally) {
	t.Helper()
	require.Zero(t, found.faults(), "%+v", found)
	require.Positive(t, found.Expected)
}

// requireLeaves has a user delete themselves, and one go to off and come back: at once no node shows either.
func (s *scene) requireLeaves(one, two string, accounts []createdUser) {
	t := s.t
	t.Helper()
	gone, away := accounts[0], accounts[1]
	status, answer := call(t, "DELETE", one+"/v1/me", gone.Token, "")
	require.Equal(t, http.StatusNoContent, status, answer)
	delete(s.seconds, uuid.MustParse(gone.ID))
	s.forEachNode(func(_ context.Context, node *redis.Client) error {
		require.Empty(t, keysOf(t, node, gone.ID))
		return nil
	})
	status, answer = call(t, "PATCH", two+"/v1/me", away.Token, `{"privacy":"off"}`)
	require.Equal(t, http.StatusOK, status, answer)
	_, board := call(t, "GET", one+"/v1/leaderboard?period=alltime&limit=100", "", "")
	require.NotContains(t, board, `"`+away.Handle+`"`)
	require.NotContains(t, board, `"`+gone.Handle+`"`)
	require.Contains(t, board, `"`+accounts[2].Handle+`"`)
	status, answer = call(t, "PATCH", two+"/v1/me", away.Token, `{"privacy":"full"}`)
	require.Equal(t, http.StatusOK, status, answer)
	requireClean(t, s.standing(s.pool, s.spans()))
}

func (s *scene) forEachNode(fn func(ctx context.Context, node *redis.Client) error) {
	s.t.Helper()
	c, err := redisconn.Open(s.t.Context(), s.stack.rdb)
	require.NoError(s.t, err)
	defer func() { _ = c.Close() }()
	cluster, ok := c.(*redis.ClusterClient)
	require.True(s.t, ok)
	require.NoError(s.t, cluster.ForEachMaster(s.t.Context(), fn))
}
