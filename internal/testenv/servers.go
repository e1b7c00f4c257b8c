package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/commma/commma/internal/localstack"
)

// Server is a Postgres or Redis server that belongs to one test, which may do to it what it likes.
type Server interface {
	// URL connects to it: the migrated Postgres database, or Redis' logical database 0. It is the same for ever.
	URL() string
	// Stop stops the server in order; Kill as a crash would. Both return when it is gone.
	Stop(ctx context.Context) error
	Kill(ctx context.Context) error
	// Restart starts the server again, after stopping it if need be, and returns when it serves.
	Restart(ctx context.Context) error
	// Signal sends a signal to all of its processes: syscall.SIGSTOP makes it hang, syscall.SIGCONT go on.
	Signal(sig os.Signal) error
}

// provider starts servers of one kind in one way.
type provider interface {
	postgres(ctx context.Context) (Server, error)
	redis(ctx context.Context, durable bool) (Server, error)
}

// startPostgres starts a Postgres in the first way that is possible here.
func startPostgres(ctx context.Context) (Server, error) {
	return firstPossible(ctx, func(p provider) (Server, error) { return p.postgres(ctx) })
}

// startRedis starts a Redis in the first way that is possible here. A durable one has an append-only file.
func startRedis(ctx context.Context, durable bool) (Server, error) {
	return firstPossible(ctx, func(p provider) (Server, error) { return p.redis(ctx, durable) })
}

// firstPossible uses the installed programs, or installs them, or falls back to containers. Only a missing program is a
// reason to try another way: a server that does not start is a fault, to be shown.
func firstPossible(ctx context.Context, start func(provider) (Server, error)) (Server, error) {
	s, missing := start(local{})
	if !isMissing(missing) {
		return s, missing
	}
	installed := localstack.Ensure(ctx, func(line string) { fmt.Fprintln(os.Stderr, "testenv:", line) })
	if !isMissing(installed) {
		if installed != nil {
			return nil, installed
		}
		return start(local{})
	}
	docker := dockerAnswers(ctx)
	if docker == nil {
		return start(containers{})
	}
	return nil, fmt.Errorf("%w\nor set %s and %s, or start Docker (%w)", missing, envPostgres, envRedis, docker)
}

func isMissing(err error) bool {
	var missing *localstack.MissingError
	return errors.As(err, &missing)
}

// onPath is the URL with another path: another database of the same server.
func onPath(address, path string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // it was connected to
	}
	u.Path = "/" + path
	return u.String()
}

// OwnPostgres is a migrated Postgres server that belongs to this test alone: it may be stopped, killed and restarted.
func OwnPostgres(t testing.TB) Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := startPostgres(ctx)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	onCleanup(t, s.Stop)
	if err := migrate(ctx, s.URL()); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return s
}

// OwnRedis is a Redis server that belongs to this test alone: it may be flushed, stopped, killed and restarted. It
// keeps nothing when it ends.
func OwnRedis(t testing.TB) Server { t.Helper(); return ownRedis(t, false) }

// OwnDurableRedis is an OwnRedis with an append-only file: after Kill and Restart it has what it had on disk.
func OwnDurableRedis(t testing.TB) Server { t.Helper(); return ownRedis(t, true) }

func ownRedis(t testing.TB, durable bool) Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := startRedis(ctx, durable)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	onCleanup(t, s.Stop)
	return s
}
