package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// The child is this test binary, run again as an aggregator that kills itself between the commit of a user and what
// would bring that user to the boards.
const (
	childMode   = "COMMMA_TEST_CHILD"      // one of the modes below, or a flush
	childKillAt = "COMMMA_TEST_CHILD_KILL" // after the commit of the how many-th user; 0 for never
)

// What becomes of the row that says who is pending.
const (
	rowWithin = "within" // it is written by the transaction that changes the user, as it must be
	rowAfter  = "after"  // it is written once that has committed
	rowNever  = "never"
)

const crashUsers = 20

func isChild() bool { return os.Getenv(childMode) != "" }

func runChild() int {
	run := child
	if mode := os.Getenv(childMode); strings.HasPrefix(mode, childFlush) {
		run = func(ctx context.Context) error { return flushChild(ctx, mode) }
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func child(ctx context.Context) error {
	pool, err := store.Open(ctx, os.Getenv("COMMMA_DATABASE_URL"), store.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	rdb, err := redisconn.Open(ctx, os.Getenv("COMMMA_REDIS_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	if act, ok := counterChildren[os.Getenv(childMode)]; ok {
		return act(newCounters(pool, rdb), ctx)
	}
	killAt, err := strconv.Atoi(os.Getenv(childKillAt))
	if err != nil {
		return err
	}
	mode := os.Getenv(childMode)
	var late func() error
	enqueue := func(ctx context.Context, db dbsqlc.DBTX, id uuid.UUID, version int64) error {
		late = func() error { return outbox.Enqueue(ctx, pool, id, version) }
		if mode == rowWithin {
			return outbox.Enqueue(ctx, db, id, version)
		}
		return nil
	}
	finalizer := app.NewFinalizer(enqueue)
	due, err := dbsqlc.New().ScanDueUsers(ctx, pool, nil)
	if err != nil {
		return err
	}
	for i, id := range due {
		if _, err := finalizer.Finalize(ctx, pool, id, nil); err != nil {
			return err
		}
		if i+1 == killAt {
			// Committed, and not yet published.
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if mode == rowAfter {
			if err := late(); err != nil {
				return err
			}
		}
	}
	_, err = publisher(pool, rdb).Cycle(ctx, nil)
	return err
}

func publisher(pool *pgxpool.Pool, rdb redis.UniversalClient) *outbox.Publisher {
	return publisherOf(languages.Keys(), pool, rdb)
}

func publisherOf(keys []string, pool *pgxpool.Pool, rdb redis.UniversalClient) *outbox.Publisher {
	return outbox.New(pool, leaderboard.NewBoards(rdb), leaderboard.NewBuilder(pool, rdb, keys, nopLogger()), keys)
}

// runChildAt runs the child to its end, which is a SIGKILL when killAt is not 0.
func (s *stack) runChildAt(mode string, killAt int) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "COMMMA_DATABASE_URL="+s.database, "COMMMA_REDIS_URL="+s.rdb,
		childMode+"="+mode, fmt.Sprintf("%s=%d", childKillAt, killAt))
	out, err := cmd.CombinedOutput()
	if killAt == 0 {
		require.NoError(s.t, err, "%s", out)
		return
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(s.t, ok && status.Signaled() && status.Signal() == syscall.SIGKILL, "the child was not killed: %v %s", err, out)
}

// crashTrial kills the aggregator once, lets the next cycle run, and compares. Everybody is on the boards before, and these
// are whole: what is not published then is never shown.
func crashTrial(t *testing.T, mode string, killAt int) tally {
	t.Helper()
	s := newScene(t)
	var users []uuid.UUID
	for range crashUsers {
		users = append(users, s.user())
	}
	s.onWholeBoards(users...)
	for i, id := range users {
		first := hoursAgo(3)
		s.hot(id, first, first+int64(i)*minute)
	}
	s.runChildAt(mode, killAt)
	s.runChildAt(mode, 0)
	return s.standing(s.pool, s.spans())
}

// mustBeWhole fails the test when a board is not in Redis.
func mustBeWhole(t *testing.T) func(leaderboard.Board) {
	return func(b leaderboard.Board) { t.Errorf("board %v is missing", b) }
}

// insertUser makes a user with a hot session of i + 1 minutes that ended at ended, and returns the session.
func insertUser(t *testing.T, pool *pgxpool.Pool, ended int64, i int) span {
	t.Helper()
	id := uuid.New()
	insert := func(sql string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	insert(`INSERT INTO users (id, handle, token_hash) VALUES ($1, $2, '\x00')`, id, "user-"+id.String()[:8])
	insert(`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines)
		SELECT $1, gen_random_uuid(), ($2 - n * 60) * 1000, 'go', 1, 0 FROM generate_series(0, $3::bigint) n`, id, ended, int64(i+1))
	insert(`INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, $2::bigint - $3::bigint * 60, $2)`, id, ended, int64(i+1))
	return span{User: id, Start: ended - int64(i+1)*60 - 60, End: ended}
}

func TestTrialsKilledBetweenCommitAndPublish(t *testing.T) {
	alongside(t)
	trials := scaled(2*crashUsers, 5)
	s := newSuite(t, "aggregator killed between commit and publish", trials)
	for i := range trials {
		s.add(crashTrial(t, rowWithin, 1+(i*7)%crashUsers))
	}
}

// The trial sees what it is there to see, be the outbox out, or only written after the commit and not with it.
func TestTrialsKilledBetweenCommitAndPublishWithoutTheOutbox(t *testing.T) {
	alongside(t)
	for mode, guard := range map[string]string{rowNever: "the outbox", rowAfter: "the outbox in the same transaction"} {
		t.Run(mode, func(t *testing.T) {
			trials := scaled(4, 1)
			s := newSuiteWithout(t, guard, "aggregator killed between commit and publish", trials)
			for i := range trials {
				found := crashTrial(t, mode, 1+(crashUsers/2+i*7)%crashUsers)
				require.Positive(t, found.Drift, "boards that are behind for ever")
				s.add(found)
			}
		})
	}
}

// The real worker, killed while Redis hangs: everything is committed and nothing is shown. The next worker shows it.
func TestWorkerKilledWhileRedisHangs(t *testing.T) {
	t.Parallel()
	own := testenv.OwnRedis(t)
	s := &stack{t: t, database: testenv.PostgresURL(t), rdb: own.URL()}
	pool, err := store.Open(t.Context(), s.database, store.Options{})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	ended := clock.System{}.Now().Add(-2 * time.Hour).Unix()
	var want []int64
	for i := range crashUsers {
		w := insertUser(t, pool, ended, i)
		want = append(want, w.End-w.Start)
	}
	require.NoError(t, own.Signal(syscall.SIGSTOP))
	worker := start(t, s.command(t.Context(), "worker", "--once"))
	require.Eventually(t, func() bool {
		n := rows[struct{ N int64 }](t, pool, `SELECT count(*) FROM outbox`)
		return n[0].N == crashUsers
	}, time.Minute, 10*time.Millisecond)
	require.Error(t, worker.stop(t, syscall.SIGKILL))
	require.NoError(t, own.Signal(syscall.SIGCONT))

	stats := s.workerOnce()
	require.Zero(t, stats.Publish.Left)
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	var got []int64
	for _, seconds := range boardSeconds(t, pool, rdb, mustBeWhole(t)) {
		got = append(got, seconds)
	}
	require.ElementsMatch(t, want, got)
	require.Empty(t, rows[struct{ ID uuid.UUID }](t, pool, `SELECT user_id FROM outbox`))
}
