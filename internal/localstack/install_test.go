package localstack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeDebian is a file system with what an installation touches, and a package manager that records what it sees.
type fakeDebian struct {
	installer
	commands []string
	policies []string // the service policy during each command
	clusters []string // the cluster settings during each command
	fail     string   // a command that fails
}

const clusterDefaults = "# Default values\n#create_main_cluster = true\n"

func newFakeDebian(t *testing.T) *fakeDebian {
	t.Helper()
	f := &fakeDebian{installer: installer{root: t.TempDir()}}
	for _, dir := range []string{"run", "usr/sbin", "etc/postgresql-common"} {
		require.NoError(t, os.MkdirAll(filepath.Join(f.root, dir), 0o755))
	}
	f.command = func(_ context.Context, name string, args ...string) error {
		line := strings.Join(append([]string{name}, args...), " ")
		f.commands = append(f.commands, line)
		f.policies = append(f.policies, f.read(f.policyPath()))
		f.clusters = append(f.clusters, f.read(f.clusterPath()))
		if strings.HasSuffix(line, "postgresql-common") && f.clusters[len(f.clusters)-1] == "" {
			f.write(t, f.clusterPath(), clusterDefaults)
		}
		if f.fail != "" && strings.Contains(line, f.fail) {
			return errors.New("no network")
		}
		return nil
	}
	return f
}

func (f *fakeDebian) policyPath() string { return filepath.Join(f.root, "usr/sbin/policy-rc.d") }
func (f *fakeDebian) clusterPath() string {
	return filepath.Join(f.root, "etc/postgresql-common/createcluster.conf")
}

func (f *fakeDebian) read(path string) string {
	text, _ := os.ReadFile(path) // missing is empty
	return string(text)
}

func (f *fakeDebian) write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
}

// verbs are the words after apt-get's options.
func (f *fakeDebian) verbs() []string {
	var list []string
	for _, c := range f.commands {
		c = strings.ReplaceAll(c, "-o DPkg::Lock::Timeout=300 ", "")
		list = append(list, strings.ReplaceAll(c, "-y -q --no-install-recommends ", ""))
	}
	return list
}

func (f *fakeDebian) requireClean(t *testing.T) {
	t.Helper()
	require.NoFileExists(t, f.policyPath())
	require.Equal(t, clusterDefaults, f.read(f.clusterPath()))
}

func TestInstallStartsNothing(t *testing.T) {
	t.Parallel()
	f := newFakeDebian(t)
	var said []string
	require.NoError(t, f.install(t.Context(), true, true, func(line string) { said = append(said, line) }))
	require.Equal(t, []string{
		"apt-get install postgresql-common", "apt-get install postgresql redis-server", "update-rc.d redis-server disable",
	}, f.verbs())
	for _, p := range f.policies {
		require.Contains(t, p, "exit 101")
	}
	require.Contains(t, f.clusters[1], "create_main_cluster = off")
	require.Len(t, said, 1)
	require.Contains(t, said[0], "postgresql and redis-server")
	f.requireClean(t)
}

func TestInstallOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFakeDebian(t)
	require.NoError(t, f.install(t.Context(), false, false, func(string) {}))
	require.Empty(t, f.commands)
	require.NoError(t, f.install(t.Context(), false, true, func(string) {}))
	require.Equal(t, []string{"apt-get install redis-server", "update-rc.d redis-server disable"}, f.verbs())
}

// An administrator's own policy decides, and stays.
func TestInstallKeepsForeignPolicy(t *testing.T) {
	t.Parallel()
	f := newFakeDebian(t)
	const theirs = "#!/bin/sh\nexit 104\n"
	f.write(t, f.policyPath(), theirs)
	require.NoError(t, f.install(t.Context(), true, true, func(string) {}))
	require.Equal(t, []string{theirs, theirs, theirs}, f.policies)
	require.Equal(t, theirs, f.read(f.policyPath()))
}

func TestFailedInstallCleansUp(t *testing.T) {
	t.Parallel()
	f := newFakeDebian(t)
	f.fail = "install -y -q --no-install-recommends postgresql redis-server"
	require.ErrorContains(t, f.install(t.Context(), true, true, func(string) {}), "no network")
	// The lists may have been too old: one update, one more try.
	require.Equal(t, []string{
		"apt-get install postgresql-common", "apt-get install postgresql redis-server", "apt-get update -q", "apt-get install postgresql redis-server",
	}, f.verbs())
	f.requireClean(t)
}

// What an installation that was killed left behind is recognised and removed by the next one.
func TestKilledInstallIsCleanedUpLater(t *testing.T) {
	t.Parallel()
	f := newFakeDebian(t)
	f.write(t, f.policyPath(), policy)
	f.write(t, f.clusterPath(), clusterDefaults+clusterLine)
	require.NoError(t, f.install(t.Context(), true, true, func(string) {}))
	f.requireClean(t)
}

// script writes an executable that prints its version.
func script(t *testing.T, path, version string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho '"+version+"'\n"), 0o755))
}

func TestFindPostgres(t *testing.T) {
	dir := t.TempDir()
	pattern := []string{filepath.Join(dir, "*/bin")}
	for major, version := range map[string]string{
		"9.6": "postgres (PostgreSQL) 9.6.24", "14": "postgres (PostgreSQL) 14.1", "16": "postgres (PostgreSQL) 16.9 (Debian 16.9-1)",
		"18": "postgres (PostgreSQL) 18beta1",
	} {
		script(t, filepath.Join(dir, major, "bin/postgres"), version)
		script(t, filepath.Join(dir, major, "bin/initdb"), version)
	}
	// A directory without initdb is a client installation.
	script(t, filepath.Join(dir, "99/bin/postgres"), "postgres (PostgreSQL) 99.1")
	t.Setenv("PATH", t.TempDir())

	p, err := findPostgresIn(t.Context(), pattern, 0)
	require.NoError(t, err)
	require.Equal(t, program{filepath.Join(dir, "18/bin"), 18}, p)
	p, err = findPostgresIn(t.Context(), pattern, 16)
	require.NoError(t, err)
	require.Equal(t, 16, p.major)
	_, err = findPostgresIn(t.Context(), pattern, 17)
	require.ErrorContains(t, err, "Postgres 17, which made the existing data directory, is not installed (found version 18")

	_, err = findPostgresIn(t.Context(), []string{filepath.Join(dir, "14/bin"), filepath.Join(dir, "9.6/bin")}, 0)
	var missing *MissingError
	require.ErrorAs(t, err, &missing)
	require.Contains(t, missing.Found, "version 14")
}

// Who gives up looking is not told that nothing is installed.
func TestCancelledSearch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := findPostgres(ctx, 0)
	require.ErrorIs(t, err, context.Canceled)
	_, err = findRedis(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestFindRedis(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	script(t, filepath.Join(dir, "redis-server"), "Redis server v=6.2.1 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=1")
	script(t, filepath.Join(dir, "valkey-server"), "Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1")
	p, err := findRedis(t.Context())
	require.NoError(t, err)
	require.Equal(t, program{filepath.Join(dir, "valkey-server"), 8}, p)
	require.NoError(t, os.Remove(filepath.Join(dir, "valkey-server")))
	_, err = findRedis(t.Context())
	require.ErrorContains(t, err, "found version 6 at "+dir)
}

// Of a family of processes only the one whose parent is not among them is asked to end.
func TestRoots(t *testing.T) {
	t.Parallel()
	list := []process{{pid: 10, parent: 1}, {pid: 11, parent: 10}, {pid: 12, parent: 11}, {pid: 20, parent: 1}}
	require.Equal(t, []int{10, 20}, slices.Collect(func(yield func(int) bool) {
		for _, p := range roots(list) {
			if !yield(p.pid) {
				return
			}
		}
	}))
	require.Len(t, list, 4)
}
