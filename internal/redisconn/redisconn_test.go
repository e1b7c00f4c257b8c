package redisconn_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestOpen(t *testing.T) {
	t.Parallel()
	c, err := redisconn.Open(t.Context(), testenv.RedisURL(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	one, ok := c.(*redis.Client)
	require.True(t, ok)
	require.True(t, one.Options().ContextTimeoutEnabled, "without it no deadline of ours holds")
}

func TestClusterURL(t *testing.T) {
	t.Parallel()
	c, err := redisconn.New("redis://127.0.0.1:7000?addr=127.0.0.1:7001&addr=127.0.0.1:7002")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	cluster, ok := c.(*redis.ClusterClient)
	require.True(t, ok)
	require.Len(t, cluster.Options().Addrs, 3)
	require.True(t, cluster.Options().ContextTimeoutEnabled)
}

func TestErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://:hunter2@127.0.0.1:1/0", "http://:hunter2@127.0.0.1", "redis://:hunter2@[::1", "redis://:hunter2@h:1?addr=h:2&nonsense=1"} {
		_, err := redisconn.Open(t.Context(), url)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
