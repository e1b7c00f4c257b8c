package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The oldest major versions that are supported.
const (
	minPostgres = 15
	minRedis    = 7
)

// postgresDirs are where distributions put the server's programs when they keep them off PATH: Debian and Ubuntu, the
// PostgreSQL project's own packages for Red Hat, Homebrew on Apple and Intel machines.
var postgresDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// MissingError says that no usable server program was found, and how to get one.
type MissingError struct {
	Server string // what is missing, with its oldest supported version
	Found  string // what was found but cannot be used; may be empty
	Hint   string // the command that helps on this machine
}

func (e *MissingError) Error() string {
	msg := e.Server + " is not installed"
	if e.Found != "" {
		msg += " (found " + e.Found + ")"
	}
	return msg + "; " + e.Hint
}

// program is an installed server.
type program struct {
	dir   string // of its executables; for Redis and Valkey the executable itself
	major int
}

// findPostgres looks for the newest supported Postgres. If want is not 0, exactly that major version is needed, because
// a data directory of it exists.
func findPostgres(ctx context.Context, want int) (program, error) {
	return findPostgresIn(ctx, postgresDirs, want)
}

// findPostgresIn is findPostgres with the places to look at besides PATH.
func findPostgresIn(ctx context.Context, patterns []string, want int) (program, error) {
	var found []program
	for _, dir := range postgresCandidates(patterns) {
		if major, ok := versionOf(ctx, filepath.Join(dir, "postgres")); ok {
			found = append(found, program{dir, major})
		}
	}
	// Stable: of two of the same version the one on PATH, which comes first, wins.
	slices.SortStableFunc(found, func(a, b program) int { return b.major - a.major })
	for _, p := range found {
		if p.major == want || want == 0 && p.major >= minPostgres {
			return p, nil
		}
	}
	if err := ctx.Err(); err != nil { // who was not asked to the end may well be there
		return program{}, fmt.Errorf("look for Postgres: %w", err)
	}
	e := &MissingError{Server: fmt.Sprintf("Postgres %d or newer", minPostgres), Hint: hint()}
	if want != 0 {
		e.Server = fmt.Sprintf("Postgres %d, which made the existing data directory,", want)
		e.Hint = "install that version, or move the data directory away to start with an empty one"
	}
	if len(found) > 0 {
		e.Found = fmt.Sprintf("version %d in %s", found[0].major, found[0].dir)
	}
	return program{}, e
}

// postgresCandidates lists the directories that hold both programs that are needed: the one on PATH, then those that the
// patterns match. Debian has neither program on PATH.
func postgresCandidates(patterns []string) []string {
	var dirs []string
	add := func(dir string) {
		for _, name := range []string{"postgres", "initdb"} {
			if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
				return
			}
		}
		dirs = append(dirs, dir)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		// initdb looks for postgres beside itself, so the links that lead to it are followed first.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			add(filepath.Dir(real))
		}
	}
	for _, pattern := range patterns {
		matches, _ := filepath.Glob(pattern) // an error means a malformed pattern: they are constants
		for _, m := range matches {
			add(m)
		}
	}
	return dirs
}

// findRedis looks for redis-server, else valkey-server, on PATH.
func findRedis(ctx context.Context) (program, error) {
	e := &MissingError{Server: fmt.Sprintf("Redis %d or newer (or Valkey)", minRedis), Hint: hint()}
	for _, name := range []string{"redis-server", "valkey-server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		major, ok := versionOf(ctx, path)
		if ok && major >= minRedis {
			return program{path, major}, nil
		}
		if ok {
			e.Found = fmt.Sprintf("version %d at %s", major, path)
		}
	}
	if err := ctx.Err(); err != nil {
		return program{}, fmt.Errorf("look for Redis: %w", err)
	}
	return program{}, e
}

// versionPattern matches "postgres (PostgreSQL) 15.18 (Debian ...)" and "Redis server v=7.0.15 sha=..." alike.
var versionPattern = regexp.MustCompile(`(?:\) |v=)(\d+)`)

// versionOf asks an executable for its major version.
func versionOf(ctx context.Context, path string) (int, bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return 0, false
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return 0, false
	}
	major, err := strconv.Atoi(string(m[1]))
	return major, err == nil
}

// Find checks that both servers are installed. The error joins one *MissingError for each that is not.
func Find(ctx context.Context) error {
	_, pgErr := findPostgres(ctx, 0)
	_, redisErr := findRedis(ctx)
	return errors.Join(pgErr, redisErr)
}

// hint names the command that installs the servers here.
func hint() string {
	if runtime.GOOS == "darwin" {
		return "run: brew install postgresql@17 redis"
	}
	switch release := osRelease(); {
	case release.like("debian"):
		return "run: sudo apt-get install --no-install-recommends postgresql redis-server"
	case release.like("fedora"), release.like("rhel"):
		return "run: sudo dnf install postgresql-server valkey"
	}
	return "install PostgreSQL and Redis with your package manager, or run: " +
		"docker run -d -p 5433:5432 -e POSTGRES_PASSWORD=commma postgres:17; docker run -d -p 6380:6379 redis:7; and set " +
		"COMMMA_DATABASE_URL='postgres://postgres:commma@127.0.0.1:5433/postgres' COMMMA_REDIS_URL='redis://127.0.0.1:6380'"
}

// distribution is what /etc/os-release says about the system.
type distribution struct{ ids []string }

func (d distribution) like(id string) bool { return slices.Contains(d.ids, id) }

// osRelease reads the ID and ID_LIKE of the system; empty when unknown.
func osRelease() distribution {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return distribution{}
	}
	var d distribution
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "ID" || key == "ID_LIKE" {
			d.ids = append(d.ids, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	return d
}
