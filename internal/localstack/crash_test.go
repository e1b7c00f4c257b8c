package localstack_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/localstack"
)

// tags are what the processes of both servers of a data directory carry: worked out here independently.
func tags(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	for _, server := range []string{"postgres", "redis"} {
		info, err := os.Stat(filepath.Join(dir, server, "data"))
		if err != nil {
			continue
		}
		st := info.Sys().(*syscall.Stat_t)
		list = append(list, fmt.Sprintf("commma-%08x-%016x", st.Dev, st.Ino))
	}
	return list
}

// processes are the ids of all living processes of the servers of a data directory.
func processes(t *testing.T, dir string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var pids []int
	for _, file := range files {
		text, _ := os.ReadFile(file) // the process may be gone
		for _, tag := range tags(t, dir) {
			if strings.Contains(string(text), tag) {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				require.NoError(t, err)
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func listen(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp4", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

func postmaster(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "postgres", "data", "postmaster.pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.SplitN(string(text), "\n", 2)[0])
	require.NoError(t, err)
	return pid
}

func fill(t *testing.T, url string) {
	t.Helper()
	execSQL(t, url, "CREATE TABLE kept AS SELECT generate_series(1, 50000) AS n")
}

func requireKept(t *testing.T, s *localstack.Stack) {
	t.Helper()
	require.EqualValues(t, 50000, query[int64](t, s.DatabaseURL(), "SELECT count(*) FROM kept"))
}

func TestKilledPostmaster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	fill(t, s.DatabaseURL())
	require.NoError(t, syscall.Kill(postmaster(t, dir), syscall.SIGKILL))
	<-s.Done()
	require.ErrorContains(t, s.Err(), "Postgres ended")
	require.NoError(t, s.Stop(t.Context()))
	requireKept(t, start(t, dir))
}

// The postmaster makes new shared memory and new children when one of them was killed, all through the directory that
// it was given as a descriptor.
func TestKilledBackend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	fill(t, s.DatabaseURL())
	pid := query[int32](t, s.DatabaseURL(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
	require.NoError(t, syscall.Kill(int(pid), syscall.SIGKILL))
	require.Eventually(t, func() bool {
		next, err := tryQuery[int32](t.Context(), s.DatabaseURL(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
		return err == nil && next != pid
	}, 30*time.Second, 20*time.Millisecond)
	requireKept(t, s)
	require.NoError(t, s.Err())
}

func TestKilledRedis(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	c := redisClient(t, s.RedisURL())
	require.NoError(t, c.ConfigSet(t.Context(), "appendfsync", "always").Err())
	require.NoError(t, c.Set(t.Context(), "kept", "42", 0).Err())
	require.NoError(t, s.Redis.Kill(t.Context()))
	tearAppendOnlyFile(t, dir)
	require.NoError(t, s.Stop(t.Context()))
	s = start(t, dir)
	require.Equal(t, "42", redisClient(t, s.RedisURL()).Get(t.Context(), "kept").Val())
}

// tearAppendOnlyFile adds the beginning of a command that was being written when the power went.
func tearAppendOnlyFile(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "redis", "data", "appendonlydir", "*.incr.aof"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("*3\r\n$3\r\nSET\r\n$4\r\nto")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// The servers of a program that was killed end by themselves, and the next start finds everything.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startParent(t, dir, nil)
	fill(t, p.database)
	require.NoError(t, redisClient(t, p.redisU).Set(t.Context(), "kept", "42", 0).Err())
	p.kill()
	require.Eventually(t, func() bool { return len(processes(t, dir)) == 0 }, 30*time.Second, 20*time.Millisecond)
	require.FileExists(t, filepath.Join(dir, "env"))
	s := start(t, dir)
	require.Equal(t, p.database, s.DatabaseURL())
	requireKept(t, s)
	require.Equal(t, "42", redisClient(t, s.RedisURL()).Get(t.Context(), "kept").Val())
}

// Servers that were hanging when their parent was killed, and so did not end, are stopped by the next start.
func TestKilledParentOfHangingServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startParent(t, dir, nil)
	fill(t, p.database)
	before := processes(t, dir)
	require.NotEmpty(t, before)
	for _, pid := range before {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	p.kill()
	require.NotEmpty(t, processes(t, dir))
	requireKept(t, start(t, dir))
	for _, pid := range before {
		require.NotContains(t, processes(t, dir), pid)
	}
}

// A busy backend that survived its postmaster does not block the next start.
func TestOrphanedBackend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	fill(t, s.DatabaseURL())
	for _, pid := range processes(t, dir) {
		if pid != postmaster(t, dir) {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
	}
	require.NoError(t, syscall.Kill(postmaster(t, dir), syscall.SIGKILL))
	<-s.Done()
	require.NoError(t, s.Postgres.Restart(t.Context()))
	requireKept(t, s)
}

// A pid file whose process id belongs to somebody else by now is no obstacle: Postgres alone would refuse to start.
func TestStalePidFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	fill(t, s.DatabaseURL())
	path := filepath.Join(dir, "postgres", "data", "postmaster.pid")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, s.Postgres.Kill(t.Context()))
	require.NoError(t, s.Stop(t.Context()))
	_, rest, _ := strings.Cut(string(text), "\n")
	require.NoError(t, os.WriteFile(path, []byte("1\n"+rest), 0o600))
	requireKept(t, start(t, dir))
}

// A set-up that was killed half way is made again.
func TestKilledSetUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	half := filepath.Join(dir, "postgres", "data.new", "base")
	require.NoError(t, os.MkdirAll(half, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(half, "1"), nil, 0o600))
	s := start(t, dir)
	require.EqualValues(t, 1, query[int32](t, s.DatabaseURL(), "SELECT 1"))
}

func TestHangAndGoOn(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	require.NoError(t, s.Postgres.Signal(syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := tryQuery[int32](ctx, s.DatabaseURL(), "SELECT 1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, s.Postgres.Signal(syscall.SIGCONT))
	require.EqualValues(t, 1, query[int32](t, s.DatabaseURL(), "SELECT 1"))
	// Hanging servers can be stopped.
	require.NoError(t, s.Postgres.Signal(syscall.SIGSTOP))
	require.NoError(t, s.Redis.Signal(syscall.SIGSTOP))
	require.NoError(t, s.Stop(t.Context()))
}

// A Stop whose time is over still leaves no process behind.
func TestImpatientStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	fill(t, s.DatabaseURL())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Stop(ctx))
	require.Empty(t, processes(t, dir))
	requireKept(t, start(t, dir))
}

// Tests kill many servers whose directories are then removed: nothing of those may stay in the machine's memory.
func TestKilledFastServerLeavesNoSharedMemory(t *testing.T) {
	t.Parallel()
	p, err := localstack.StartPostgres(t.Context(), localstack.PostgresOptions{Dir: t.TempDir(), Fast: true})
	require.NoError(t, err)
	require.Equal(t, "mmap", query[string](t, p.URL(), "SHOW dynamic_shared_memory_type"))
	fill(t, p.URL())
	key := query[string](t, p.URL(), "SELECT split_part(split_part(pg_read_file('postmaster.pid'), E'\\n', 7), ' ', -1)")
	require.Contains(t, segments(t), strings.TrimSpace(key))
	require.NoError(t, p.Kill(t.Context()))
	require.NotContains(t, segments(t), strings.TrimSpace(key))
	// It does not hinder the recovery.
	require.NoError(t, p.Restart(t.Context()))
	require.EqualValues(t, 50000, query[int64](t, p.URL(), "SELECT count(*) FROM kept"))
	require.NoError(t, p.Stop(t.Context()))
}

// segments are the ids of all shared memory segments of the machine.
func segments(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	require.NoError(t, err)
	var ids []string
	for line := range strings.Lines(string(text)) {
		ids = append(ids, strings.Fields(line)[1])
	}
	return ids
}
