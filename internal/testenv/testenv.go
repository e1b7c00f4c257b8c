// Package testenv gives tests real servers: a fresh, migrated Postgres database and an empty Redis for each test, cheap
// enough for every test that wants one.
//
// The servers are, in this order: the ones that COMMMA_TEST_DATABASE_URL and COMMMA_TEST_REDIS_URL name; private ones
// of this test binary, from the installed programs (as root on Debian or Ubuntu they are installed if need be);
// containers, where Docker answers. A test that cannot get its servers fails; it is never skipped.
//
// They start when the first test asks and are stopped by Main, so a package that uses this one needs
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// Only tests may import this package.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/commma/commma/internal/store"
)

// startTimeout bounds getting a server: installing packages and pulling images included.
const startTimeout = 4 * time.Minute

// cleanupTimeout bounds what runs after a test, whose own context is over by then.
const cleanupTimeout = 30 * time.Second

// Main runs the tests of a package and stops what they started.
func Main(m *testing.M) {
	code := m.Run()
	err := stopAll()
	if err == nil && code == 0 {
		err = findLeaks()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// findLeaks reports goroutines that tests, or what they tested, started and did not wait for.
func findLeaks() error {
	http.DefaultClient.CloseIdleConnections()
	if usedDocker.Load() {
		return nil // its client keeps connections open
	}
	return goleak.Find()
}

// closers stop what was started for the whole binary, last first.
var closers struct {
	sync.Mutex
	list []func(context.Context) error
}

// AtExit has Main call fn when the tests of the package are over; what was registered last is called first.
func AtExit(fn func(context.Context) error) {
	closers.Lock()
	defer closers.Unlock()
	closers.list = append(closers.list, fn)
}

// stopAll runs the closers, all of them even if some fail, under a time limit of its own: the tests are over, and so is
// every context they had.
func stopAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	closers.Lock()
	defer closers.Unlock()
	var errs []error
	for i := len(closers.list) - 1; i >= 0; i-- {
		errs = append(errs, closers.list[i](ctx))
	}
	return errors.Join(errs...)
}

// once makes a value when the first test asks for it, and keeps it, or the error, for all.
type once[T any] struct {
	mu    sync.Mutex
	asked bool
	value T
	err   error
}

// get makes the value if nobody has asked before. An error is kept too: what cannot be had once would only cost every
// other test its patience.
func (o *once[T]) get(t testing.TB, make func(context.Context) (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.asked {
		// Others will use it too, so it must not end with the test that happened to be first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
		defer cancel()
		o.value, o.err = make(ctx)
		o.asked = true
	}
	return o.value, o.err
}

// onCleanup runs fn when the test is over, in time, and fails the test if fn does.
func onCleanup(t testing.TB, fn func(context.Context) error) {
	parent := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(parent, cleanupTimeout)
		defer cancel()
		if err := fn(ctx); err != nil {
			t.Errorf("testenv: clean up: %v", err)
		}
	})
}

// Postgres is a pool on a fresh, migrated database that belongs to this test alone. It is closed after the test.
func Postgres(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := store.Open(t.Context(), PostgresURL(t), store.Options{AppName: "test"})
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Redis is a client of an empty logical database that belongs to this test alone. It is closed after the test. What is
// not per logical database (scripts, configuration, FLUSHALL) is shared: a test that needs those takes OwnRedis.
func Redis(t testing.TB) *redis.Client {
	t.Helper()
	return redisClient(t, RedisURL(t))
}

func redisClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
