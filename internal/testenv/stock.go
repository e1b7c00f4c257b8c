package testenv

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/localstack"
	"github.com/commma/commma/internal/store"
)

// stockSettings are the only ones that differ from an installed server's: without them the checkpoints of what was loaded
// a moment ago would fall into what is measured.
var stockSettings = map[string]string{"max_wal_size": "8GB", "checkpoint_timeout": "30min"}

var stockCluster once[cluster]

// StockPostgres is a pool on a fresh, migrated database for a benchmark, on a server as it is installed: on disk, with
// fsync, checksums and its default memory. The servers of tests are far from that, and say little about speed. Where
// COMMMA_TEST_DATABASE_URL names a server, that one is measured. The sessions of the pool have the given settings: names and
// values in turn. The pool is closed after the benchmark.
func StockPostgres(t testing.TB, settings ...string) *pgxpool.Pool {
	t.Helper()
	c, err := stockCluster.get(t, func(ctx context.Context) (cluster, error) { return newClusterOn(ctx, startStock) })
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	o := store.Options{AppName: "benchmark", Settings: make(map[string]string)}
	for pair := range slices.Chunk(settings, 2) {
		o.Settings[pair[0]] = pair[1]
	}
	pool, err := store.Open(t.Context(), c.newDatabase(t), o)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func startStock(ctx context.Context) (Server, error) {
	return firstPossible(ctx, func(p provider) (Server, error) {
		if _, ok := p.(local); !ok {
			return p.postgres(ctx)
		}
		dir, err := diskDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(dir, strconv.FormatInt(serverCount.Add(1), 10))
		pg, err := localstack.StartPostgres(ctx, localstack.PostgresOptions{Dir: dir, Settings: stockSettings})
		if err != nil {
			return nil, err // the nil pointer must not become a Server that is not nil
		}
		return pg, nil
	})
}
