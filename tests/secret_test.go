package tests

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
)

const (
	secretSessions = 9_000
	secretSample   = 90
	// sessionsPerUser is how many sessions one user uploads.
	sessionsPerUser = 15
	// failingKeystrokes make the statement that stores them fail, with an error that quotes what it was given.
	failingKeystrokes = 666_013
)

// vault is all that keeps or shows anything: own servers, whose every byte can be searched, and the processes on them.
type vault struct {
	*stack
	*secret
	base   string
	procs  []*process
	pool   *pgxpool.Pool
	rdb    redis.UniversalClient
	client *http.Client
	first  string // segment of the write-ahead log
}

func openVault(t *testing.T) *vault {
	t.Helper()
	s := &stack{t: t, database: testenv.OwnPostgres(t).URL(), rdb: testenv.OwnDurableRedis(t).URL()}
	v := &vault{stack: s, secret: newSecret(), pool: openPool(t, s.database)}
	t.Cleanup(v.pool.Close)
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	v.rdb = rdb
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	v.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	v.layBare()
	v.first = rows[struct{ Name string }](t, v.pool, `SELECT pg_walfile_name(pg_current_wal_lsn())`)[0].Name
	var api *process
	v.base, api = s.serve("--no-aggregate", "--log-level=debug", "--ingest-per-hour=0", "--reads-per-hour=0", "--writes-per-hour=0",
		"--failed-auth-per-hour=0")
	worker := start(t, s.command(context.WithoutCancel(t.Context()), "worker", "--log-level=debug", "--aggregate-every=1s", "--publish-every=1s"))
	v.procs = []*process{api, worker}
	return v
}

// layBare has the servers keep everything, and nothing compressed: a secret must not hide. And some statements fail.
func (v *vault) layBare() {
	v.t.Helper()
	for _, sql := range []string{
		`ALTER SYSTEM SET wal_keep_size = '32GB'`, `ALTER SYSTEM SET max_wal_size = '8GB'`, `SELECT pg_reload_conf()`,
		`DO $$ DECLARE c record; BEGIN
			FOR c IN SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'
				AND data_type IN ('text', 'bytea', 'jsonb') AND table_name IN (SELECT tablename FROM pg_tables WHERE schemaname = 'public') LOOP
				EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STORAGE EXTERNAL', c.table_name, c.column_name);
			END LOOP; END $$`,
		fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.keystrokes = %d THEN
				RAISE EXCEPTION 'refused %%', to_jsonb(NEW) USING DETAIL = to_jsonb(NEW)::text, COLUMN = coalesce(NEW.file, 'none');
			END IF; RETURN NEW; END $$`, failingKeystrokes),
		`CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()`,
		// Every second user's sessions cannot be made in a change of mode, which alone has a bound on locks: it does without.
		`CREATE FUNCTION refuse_session() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF current_setting('lock_timeout') <> '0' AND (SELECT right(handle, 1)::int % 2 = 0 FROM users WHERE id = NEW.user_id) THEN
				RAISE EXCEPTION 'refused %', (SELECT jsonb_agg(e) FROM events e WHERE e.user_id = NEW.user_id)
					USING DETAIL = (SELECT jsonb_agg(e) FROM events e WHERE e.user_id = NEW.user_id);
			END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER refuse_session BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION refuse_session()`,
	} {
		_, err := v.pool.Exec(v.t.Context(), sql)
		require.NoError(v.t, err)
	}
	require.NoError(v.t, v.rdb.ConfigSet(v.t.Context(), "rdbcompression", "no").Err())
}

// live plays sessions of users in a mode, and returns how many events were accepted. Every third user goes through the modes,
// or, where there is a single one, through all of them.
func (v *vault) live(sessions int, modes ...string) int64 {
	v.t.Helper()
	users := max((sessions+sessionsPerUser-1)/sessionsPerUser, 2)
	var events, next atomic.Int64
	var g errgroup.Group
	g.SetLimit(8)
	for i := range users {
		mode := modes[i%len(modes)]
		user, err := account.Create(v.t.Context(), v.pool, account.NewUser{Handle: fmt.Sprintf("%s-%d", mode, i), Mode: activity.Mode(mode)})
		require.NoError(v.t, err)
		g.Go(func() error {
			c := &confidant{secret: v.secret, base: v.base, client: v.client, token: user.Token}
			if i%3 == 0 {
				c.modes = modes
			}
			if c.modes != nil && len(modes) == 1 {
				c.modes = []string{"full", "summary", "off"}
			}
			for range sessionsPerUser {
				if next.Add(1) > int64(sessions) {
					break
				}
				if err := c.session(v.t.Context()); err != nil {
					return fmt.Errorf("user on %s: %w", mode, err)
				}
			}
			events.Add(int64(c.sent))
			if len(c.leaks) > 0 {
				return fmt.Errorf("%d answers hold the secret, such as %s", len(c.leaks), c.leaks[0])
			}
			return nil
		})
	}
	require.NoError(v.t, g.Wait())
	return events.Load()
}

// found lists where the secret is.
func (v *vault) found() (places []string) {
	v.t.Helper()
	look := func(place string, text []byte) {
		require.NotEmpty(v.t, text, place)
		if v.in(text) {
			places = append(places, place)
		}
	}
	var bindir string
	require.NoError(v.t, v.pool.QueryRow(v.t.Context(), `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&bindir))
	dump, err := exec.CommandContext(v.t.Context(), filepath.Join(bindir, "pg_dump"), "--inserts", "--dbname="+v.database).Output()
	require.NoError(v.t, err)
	look("dump", dump)
	if v.inLog() {
		places = append(places, "write-ahead log")
	}
	look("Redis", []byte(redisText(v.t, v.rdb)))
	require.NoError(v.t, v.rdb.Save(v.t.Context()).Err())
	dir := redisDir(v.t, v.rdb)
	for _, pattern := range []string{"*.rdb", "appendonlydir/*.aof"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(v.t, err)
		require.NotEmpty(v.t, files)
		for _, name := range files {
			text, err := os.ReadFile(name)
			require.NoError(v.t, err)
			if v.in(text) {
				places = append(places, "Redis's files")
			}
		}
	}
	_, metrics := call(v.t, http.MethodGet, v.base+"/metrics", "", "")
	look("metrics", []byte(metrics))
	for _, p := range v.procs {
		look("log of "+p.cmd.Args[1], []byte(p.stderr.String()))
		if out := p.stdout.String(); v.in([]byte(out)) {
			places = append(places, "output of "+p.cmd.Args[1])
		}
	}
	return places
}

// inLog searches the segments of the write-ahead log as bytes. The header of a page may cut a text in two, which hides one
// now and then, and not the thousands that there would be.
func (v *vault) inLog() bool {
	v.t.Helper()
	segments := rows[struct{ Name string }](v.t, v.pool, `SELECT name FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$' ORDER BY name`)
	require.True(v.t, slices.ContainsFunc(segments, func(s struct{ Name string }) bool { return s.Name == v.first }), "a segment is gone")
	for _, s := range segments {
		if v.in(rows[struct{ Bytes []byte }](v.t, v.pool, `SELECT pg_read_binary_file('pg_wal/' || $1)`, s.Name)[0].Bytes) {
			return true
		}
	}
	return false
}

// inServersLogs searches what Postgres and Redis themselves have logged.
func (v *vault) inServersLogs() bool {
	v.t.Helper()
	data := rows[struct {
		Dir string
		PID int
	}](v.t, v.pool, `SELECT current_setting('data_directory'), pg_backend_pid()`)[0]
	if strings.HasPrefix(data.Dir, "/proc/") {
		dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", data.PID)) // it works in its data directory
		require.NoError(v.t, err)
		data.Dir = dir
	}
	for _, dir := range []string{data.Dir, redisDir(v.t, v.rdb)} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "server.log"))
		require.NoError(v.t, err)
		if v.in(text) {
			return true
		}
	}
	return false
}

// Whatever users who are not on full send, it is found nowhere.
func TestTrialsSecretOfWhoIsNotOnFull(t *testing.T) {
	alongside(t)
	sessions := scaled(secretSessions, secretSample)
	s := newSuite(t, "secret of a user on summary or off", sessions)
	v := openVault(t)
	events := v.live(sessions, "summary", "off")
	require.GreaterOrEqual(t, events, int64(sessions*eventsPerSession))
	v.settle()
	v.requireNoisy("PrivacyDeleteEvents")
	places := v.found()
	require.Empty(t, places)
	require.False(t, v.inServersLogs())
	require.NotZero(t, rows[struct{ N int64 }](t, v.pool, `SELECT count(*) FROM session_seconds WHERE lang = 'unknown'`)[0].N)
	s.addAll(sessions, tally{Expected: events, Found: events, Leaked: int64(len(places))})
}

// The same sessions of users on full are found where they are kept, so the search is known to work; and still not in logs,
// metrics or Redis.
func TestTrialsSecretOfWhoIsOnFull(t *testing.T) {
	alongside(t)
	sessions := scaled(secretSessions/20, secretSample/3)
	s := newSuiteWithout(t, "a mode that keeps less", "secret of a user on full", sessions)
	v := openVault(t)
	events := v.live(sessions, "full")
	v.settle()
	v.requireNoisy("PrivacyEraseEvents")
	places := v.found()
	require.Equal(t, []string{"dump", "write-ahead log"}, places)
	s.addAll(sessions, tally{Expected: events, Found: events, Leaked: int64(len(places))})
}

// requireNoisy says that all was logged that is to be searched: statements that failed, changes of mode, and those that had to
// do without a finalize.
func (v *vault) requireNoisy(also string) {
	v.t.Helper()
	log := v.procs[0].stderr.String()
	for _, line := range []string{also, "P0001", "UserUpdateMode", "user left, the aggregator will finalize"} {
		require.Contains(v.t, log, line)
	}
}

// addAll books trials that were played together.
func (s *suite) addAll(n int, found tally) {
	s.mu.Lock()
	s.trials += n - 1
	s.mu.Unlock()
	s.add(found)
}
