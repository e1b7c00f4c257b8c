package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store"
)

// envPostgres names a Postgres server to use: the URL of a superuser, or of a role that may create databases and
// terminate its own connections.
const envPostgres = "COMMMA_TEST_DATABASE_URL"

// cluster is the Postgres that this binary's tests share, with a migrated template database from which each test's own
// is copied.
type cluster struct {
	admin    string // URL of a database that may create others
	template string
}

// sharedCluster is started by the first test that needs it. What fails once fails for all tests.
var sharedCluster once[cluster]

// newCluster finds or starts the server, and migrates the template once, so that a test costs a copy of files.
func newCluster(ctx context.Context) (cluster, error) { return newClusterOn(ctx, startPostgres) }

func newClusterOn(ctx context.Context, start func(context.Context) (Server, error)) (cluster, error) {
	c := cluster{admin: os.Getenv(envPostgres), template: newName("template")}
	external := c.admin != ""
	if !external {
		s, err := start(ctx)
		if err != nil {
			return cluster{}, err
		}
		AtExit(s.Stop)
		c.admin = s.URL()
	}
	if err := c.exec(ctx, "CREATE DATABASE "+c.template); err != nil {
		return cluster{}, fmt.Errorf("make template database: %w", err)
	}
	if external {
		AtExit(func(ctx context.Context) error { return c.drop(ctx, c.template) })
	}
	if err := migrate(ctx, c.url(c.template)); err != nil {
		return cluster{}, fmt.Errorf("make template database: %w", err)
	}
	return c, nil
}

// newName is the name of a database that nobody else has, on a server that others may use too.
func newName(kind string) string { return "commma_" + kind + "_" + strings.ToLower(rand.Text()[:16]) }

// migrate brings a database to the newest schema, as `commma-api migrate up` does.
func migrate(ctx context.Context, url string) error {
	pool, err := store.Open(ctx, url, store.Options{AppName: "testenv"})
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = store.MigrateUp(ctx, pool, slog.New(slog.DiscardHandler))
	return err
}

// url is the URL of another database of the same server.
func (c cluster) url(database string) string { return onPath(c.admin, database) }

// exec runs one statement. The names in it are our own: nothing needs quoting.
func (c cluster) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, c.admin)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// drop drops a database, also when a test left connections to it open.
func (c cluster) drop(ctx context.Context, name string) error {
	return c.exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
}

// createTimeout bounds making one database: far more than it takes on a busy machine.
const createTimeout = time.Minute

// PostgresURL is a fresh, migrated database that belongs to this test alone, for tests that open their own pools or
// start processes. It is dropped after the test.
func PostgresURL(t testing.TB) string {
	t.Helper()
	c, err := sharedCluster.get(t, newCluster)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return c.newDatabase(t)
}

// newDatabase makes a migrated database that is dropped after the test, and returns its URL.
func (c cluster) newDatabase(t testing.TB) string {
	t.Helper()
	name := newName("test")
	// Copying files needs checkpoints, which cost nothing without fsync, and saves the log of every page.
	ctx, cancel := context.WithTimeout(t.Context(), createTimeout)
	defer cancel()
	if err := c.exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+c.template+" STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("testenv: make database: %v", err)
	}
	onCleanup(t, func(ctx context.Context) error { return c.drop(ctx, name) })
	return c.url(name)
}
