package testenv

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/localstack"
)

// smallRedis is a server of somebody else's with four databases, the first two of which hold data.
func smallRedis(t *testing.T) (leases, func(n int) *redis.Client) {
	t.Helper()
	s := OwnRedis(t)
	d, err := newLeases(t.Context(), s.URL())
	require.NoError(t, err)
	l := d.(leases)
	require.Equal(t, localstack.FastDatabases, l.count)
	l.count = 4
	at := func(n int) *redis.Client { return redisClient(t, l.database(n)) }
	require.NoError(t, at(0).Set(t.Context(), "theirs", 1, 0).Err())
	require.NoError(t, at(1).Set(t.Context(), "theirs", 1, 0).Err())
	return l, at
}

func TestLeasesLeaveForeignDataAlone(t *testing.T) {
	t.Parallel()
	l, at := smallRedis(t)
	var urls []string
	for range 2 {
		url, giveBack, err := l.take(t.Context())
		require.NoError(t, err)
		urls = append(urls, url)
		require.NoError(t, redisClient(t, url).Set(t.Context(), "ours", 1, 0).Err())
		defer func() { require.NoError(t, giveBack(t.Context())) }()
	}
	require.Equal(t, []string{l.database(2), l.database(3)}, urls)
	// All that may be used are in use.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, _, err := l.take(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualValues(t, 1, at(1).DBSize(t.Context()).Val())
}

func TestLeaseIsGivenBackEmpty(t *testing.T) {
	t.Parallel()
	l, at := smallRedis(t)
	url, giveBack, err := l.take(t.Context())
	require.NoError(t, err)
	require.NoError(t, redisClient(t, url).Set(t.Context(), "ours", 1, 0).Err())
	require.NoError(t, giveBack(t.Context()))
	require.Zero(t, at(2).DBSize(t.Context()).Val())
	require.Equal(t, []string{"theirs"}, at(0).Keys(t.Context(), "*").Val())
}

// The database of a test binary that was killed is emptied and used again once its lease has run out.
func TestLeaseOfKilledBinary(t *testing.T) {
	t.Parallel()
	l, at := smallRedis(t)
	url, _, err := l.take(t.Context())
	require.NoError(t, err)
	require.NoError(t, redisClient(t, url).Set(t.Context(), "ours", 1, 0).Err())
	require.NoError(t, at(0).Del(t.Context(), leaseKey+"2").Err())
	again, giveBack, err := l.take(t.Context())
	require.NoError(t, err)
	require.Equal(t, url, again)
	require.Zero(t, at(2).DBSize(t.Context()).Val())
	require.NoError(t, giveBack(t.Context()))
}

func TestNamedServers(t *testing.T) {
	s := OwnPostgres(t)
	t.Setenv(envPostgres, s.URL())
	before := len(closers.list)
	c, err := newCluster(t.Context())
	require.NoError(t, err)
	require.Contains(t, databaseNames(t, s.URL()), c.template)
	// What was made there is removed at the end.
	for _, fn := range closers.list[before:] {
		require.NoError(t, fn(t.Context()))
	}
	closers.list = closers.list[:before]
	require.NotContains(t, databaseNames(t, s.URL()), c.template)

	t.Setenv(envRedis, OwnRedis(t).URL())
	d, err := newDatabases(t.Context())
	require.NoError(t, err)
	require.IsType(t, leases{}, d)
}

func databaseNames(t *testing.T, url string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), "SELECT datname::text FROM pg_database")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return slices.Sorted(slices.Values(names))
}

// A test binary that was killed leaves its directory; the next one removes it, but never one that is in use.
func TestAbandonedDirectoriesAreRemoved(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	used, err := makeTemp(base)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, used.lock.Release()) })
	abandoned, err := makeTemp(base)
	require.NoError(t, err)
	require.NoError(t, abandoned.lock.Release())
	removeAbandoned(base)
	require.DirExists(t, used.path)
	require.NoDirExists(t, abandoned.path)
}
