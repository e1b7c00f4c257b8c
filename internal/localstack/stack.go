package localstack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
)

// The two variables that the file env exports, and that every command of commma-api reads.
const (
	EnvDatabase = "COMMMA_DATABASE_URL"
	EnvRedis    = "COMMMA_REDIS_URL"
)

// DefaultDataDir is where `commma-api dev` keeps its servers' data, relative to the current directory.
const DefaultDataDir = ".commma"

// Options of Start.
type Options struct {
	DataDir string       // default DefaultDataDir
	Fast    bool         // see PostgresOptions and RedisOptions
	Log     *slog.Logger // default: none
	// Notify is told, in a line for the user, what takes time. Default: nobody is.
	Notify func(line string)
}

// Stack is a running pair of private servers.
type Stack struct {
	Postgres *Postgres
	Redis    *Redis

	dir  string
	ends sync.WaitGroup
	done chan struct{}

	mu   sync.Mutex
	lock *Lock // nil once stopped
}

// Start runs Postgres and Redis on a data directory, which is made if it is new. ctx bounds the start only; the caller
// must Stop the stack. It fails with ErrInUse when another process runs a stack there, and with *MissingError when a
// server is not installed.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if o.DataDir == "" {
		o.DataDir = DefaultDataDir
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := prepareDir(dir); err != nil {
		return nil, err
	}
	lock, err := TryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("use data directory %s: %w", dir, err)
	}
	s := &Stack{dir: dir, lock: lock, done: make(chan struct{})}
	if err := s.startServers(ctx, o); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// prepareDir makes the data directory, and keeps git away from it.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	return nil
}

// startServers starts both servers side by side. On an error those that did start are in s, for Stop.
func (s *Stack) startServers(ctx context.Context, o Options) error {
	var g errgroup.Group
	g.Go(func() (err error) {
		s.Postgres, err = StartPostgres(ctx, PostgresOptions{
			Dir: filepath.Join(s.dir, "postgres"), Fast: o.Fast, Log: o.Log, Notify: o.Notify,
		})
		return err
	})
	g.Go(func() (err error) {
		s.Redis, err = StartRedis(ctx, RedisOptions{Dir: filepath.Join(s.dir, "redis"), Fast: o.Fast, Log: o.Log})
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if err := s.writeEnv(); err != nil {
		return err
	}
	s.ends.Go(s.watch)
	return nil
}

// watch closes done when the first of the servers has ended.
func (s *Stack) watch() {
	defer close(s.done)
	select {
	case <-s.Postgres.Done():
	case <-s.Redis.Done():
	}
}

func (s *Stack) envPath() string { return filepath.Join(s.dir, "env") }

// writeEnv writes the file env. Nothing in the URLs needs escaping: they consist of letters, digits and :/@?=.
func (s *Stack) writeEnv() error {
	return writeSecret(s.envPath(), fmt.Appendf(nil, "export %s='%s'\nexport %s='%s'\n", EnvDatabase, s.DatabaseURL(), EnvRedis, s.RedisURL()))
}

// DatabaseURL connects to the Postgres database commma.
func (s *Stack) DatabaseURL() string { return s.Postgres.URL() }

// RedisURL connects to Redis.
func (s *Stack) RedisURL() string { return s.Redis.URL() }

// Done is closed when one of the servers has ended; Err tells whether that was expected.
func (s *Stack) Done() <-chan struct{} { return s.done }

// Err is nil unless a server ended by itself.
func (s *Stack) Err() error { return errors.Join(s.Postgres.Err(), s.Redis.Err()) }

// Stop stops both servers, removes the file env and gives the data directory free. When ctx ends first, the servers are
// stopped by harsher means at once. Stopping twice is fine.
func (s *Stack) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	errs := make([]error, 4)
	var wg sync.WaitGroup
	if s.Postgres != nil {
		wg.Go(func() { errs[0] = s.Postgres.Stop(ctx) })
	}
	if s.Redis != nil {
		wg.Go(func() { errs[1] = s.Redis.Stop(ctx) })
	}
	wg.Wait()
	s.ends.Wait()
	// Before the lock is given up: afterwards the file may be that of the next stack.
	if err := os.Remove(s.envPath()); !errors.Is(err, fs.ErrNotExist) {
		errs[2] = err
	}
	errs[3] = s.lock.Release()
	s.lock = nil
	return errors.Join(errs...)
}
