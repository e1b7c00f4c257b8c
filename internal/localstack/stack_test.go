package localstack_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/localstack"
)

func TestRestartKeepsDataAndURLs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	database, redisURL := s.DatabaseURL(), s.RedisURL()
	execSQL(t, database, "CREATE TABLE kept AS SELECT 42 AS n")
	require.NoError(t, redisClient(t, redisURL).Set(t.Context(), "kept", "42", 0).Err())
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, s.Err())

	s = start(t, dir)
	require.Equal(t, database, s.DatabaseURL())
	require.Equal(t, redisURL, s.RedisURL())
	require.EqualValues(t, 42, query[int32](t, database, "SELECT n FROM kept"))
	require.Equal(t, "42", redisClient(t, redisURL).Get(t.Context(), "kept").Val())
}

func TestServersArePrivate(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	require.Equal(t, "127.0.0.1", query[string](t, s.DatabaseURL(), "SHOW listen_addresses"))
	require.Empty(t, query[string](t, s.DatabaseURL(), "SHOW unix_socket_directories"))
	require.Equal(t, "on", query[string](t, s.DatabaseURL(), "SHOW fsync"))
	r := redisClient(t, s.RedisURL())
	require.Equal(t, "127.0.0.1", r.ConfigGet(t.Context(), "bind").Val()["bind"])
	require.Equal(t, "yes", r.ConfigGet(t.Context(), "appendonly").Val()["appendonly"])
	require.Equal(t, "noeviction", r.ConfigGet(t.Context(), "maxmemory-policy").Val()["maxmemory-policy"])

	for _, address := range []string{s.DatabaseURL(), s.RedisURL()} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.NotContains(t, []string{"5432", "6379"}, u.Port())
		u.User = url.UserPassword(u.User.Username(), "wrong")
		if u.Scheme == "redis" {
			require.ErrorContains(t, redisClient(t, u.String()).Ping(t.Context()).Err(), "WRONGPASS")
			continue
		}
		_, err = tryQuery[int32](t.Context(), u.String(), "SELECT 1")
		require.ErrorContains(t, err, "28P01")
	}
}

// The password is in no command line, and in no file that others may read.
func TestSecretsAreSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	var secrets []string
	for _, address := range []string{s.DatabaseURL(), s.RedisURL()} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		password, _ := u.User.Password()
		require.Len(t, password, 26)
		secrets = append(secrets, password)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, line := range lines {
		text, _ := os.ReadFile(line) // the process may be gone
		require.NotContains(t, string(text), secrets[0])
		require.NotContains(t, string(text), secrets[1])
	}
	for _, name := range []string{"env", "postgres/state.json", "redis/state.json", "postgres/server.log", "redis/server.log"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), name)
	}
	_, err = os.Stat(filepath.Join(dir, "postgres/password.new"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestEnvFileCanBeSourced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's a path")
	s := start(t, dir)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `. "$1/env" && printenv COMMMA_DATABASE_URL COMMMA_REDIS_URL`, "sh", dir).Output()
	require.NoError(t, err)
	require.Equal(t, s.DatabaseURL()+"\n"+s.RedisURL()+"\n", string(out))
	ignore, err := os.ReadFile(filepath.Join(dir, ".gitignore"))
	require.NoError(t, err)
	require.Equal(t, "*\n", string(ignore))

	require.NoError(t, s.Stop(t.Context()))
	_, err = os.Stat(filepath.Join(dir, "env"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSecondStartIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	_, err := localstack.Start(t.Context(), localstack.Options{DataDir: dir})
	require.ErrorIs(t, err, localstack.ErrInUse)
	require.ErrorContains(t, err, dir)
	require.EqualValues(t, 1, query[int32](t, s.DatabaseURL(), "SELECT 1"))
	// The one that was refused must not have taken the file of the one that runs.
	require.FileExists(t, filepath.Join(dir, "env"))
}

// As root, servers run as somebody else, who cannot enter the directories above the data; nobody's permissions change.
// As an ordinary user this is the same without the change of user.
func TestPrivateParentWithBlanks(t *testing.T) {
	t.Parallel()
	private := filepath.Join(t.TempDir(), "a private home")
	require.NoError(t, os.Mkdir(private, 0o700))
	dir := filepath.Join(private, "my clone", ".commma")
	s := start(t, dir)
	execSQL(t, s.DatabaseURL(), "CREATE TABLE a AS SELECT generate_series(1, 1000) AS n; CHECKPOINT")
	require.NoError(t, s.Postgres.Restart(t.Context()))
	require.EqualValues(t, 1000, query[int64](t, s.DatabaseURL(), "SELECT count(*) FROM a"))
	for _, path := range []string{private, filepath.Dir(dir), dir} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, os.Geteuid(), info.Sys().(*syscall.Stat_t).Uid, path)
	}
	info, err := os.Stat(private)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	for _, pid := range processes(t, dir) {
		require.NotZero(t, effectiveUser(t, pid), "a server runs as root")
	}
}

func effectiveUser(t *testing.T, pid int) int {
	t.Helper()
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	require.NoError(t, err)
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

// The stack works for a user who is not root: nobody, when the tests run as root.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "localstack user-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	var attr *syscall.SysProcAttr
	uid := os.Geteuid()
	if uid == 0 {
		u, err := user.Lookup("nobody")
		require.NoError(t, err)
		uid, err = strconv.Atoi(u.Uid)
		require.NoError(t, err)
		gid, err := strconv.Atoi(u.Gid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(dir, uid, gid))
		attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	data := filepath.Join(dir, "data")
	p := startParent(t, data, attr)
	require.EqualValues(t, 1, query[int32](t, p.database, "SELECT 1"))
	require.NoError(t, redisClient(t, p.redisU).Ping(t.Context()).Err())
	pids := processes(t, data)
	require.NotEmpty(t, pids)
	for _, pid := range pids {
		require.Equal(t, uid, effectiveUser(t, pid))
	}
	require.NoError(t, p.stop())
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := localstack.StartPostgres(t.Context(), localstack.PostgresOptions{
		Dir: filepath.Join(dir, "pg"), Fast: true, Settings: map[string]string{"shared_buffers": "nonsense"},
	})
	require.ErrorContains(t, err, `invalid value for parameter "shared_buffers"`)
	_, err = localstack.StartRedis(t.Context(), localstack.RedisOptions{
		Dir: filepath.Join(dir, "redis"), Fast: true, Settings: map[string]string{"maxmemory-policy": "nonsense"},
	})
	require.ErrorContains(t, err, "maxmemory-policy")
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	_, err := localstack.Start(ctx, localstack.Options{DataDir: dir, Notify: func(string) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, processes(t, dir))
	// And nothing stands in the way of the next one.
	start(t, dir)
}

// A port that somebody else took meanwhile is given up for another one, which is remembered.
func TestPortIsTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	before, err := url.Parse(s.DatabaseURL())
	require.NoError(t, err)
	require.NoError(t, s.Stop(t.Context()))
	listen(t, before.Host)
	s = start(t, dir)
	moved := s.DatabaseURL()
	require.NotContains(t, moved, before.Host)
	require.NoError(t, s.Stop(t.Context()))
	require.Equal(t, moved, start(t, dir).DatabaseURL())
}

func TestUnexpectedEndIsReported(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	require.NoError(t, s.Err())
	require.NoError(t, s.Redis.Signal(syscall.SIGKILL))
	<-s.Done()
	require.ErrorContains(t, s.Err(), "Redis ended: signal: killed")
	require.NoError(t, s.Postgres.Err())
	require.ErrorIs(t, s.Redis.Signal(syscall.SIGTERM), localstack.ErrNotRunning)
}

func TestMissingServerNamesTheCommand(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := localstack.StartRedis(t.Context(), localstack.RedisOptions{Dir: t.TempDir()})
	var missing *localstack.MissingError
	require.True(t, errors.As(err, &missing))
	require.True(t, strings.Contains(missing.Hint, "apt-get install") || strings.Contains(missing.Hint, "dnf install") ||
		strings.Contains(missing.Hint, "brew install") || strings.Contains(missing.Hint, "docker run"), missing.Hint)
}
