package ingest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// startWriter runs a writer until the test is over, or until stop is called, which waits for it.
func startWriter(t *testing.T, pool *pgxpool.Pool, change func(*WriterConfig)) (w *Writer, stop func()) {
	t.Helper()
	cfg := DefaultWriterConfig()
	if change != nil {
		change(&cfg)
	}
	w = NewWriter(pool, testenv.Logger(t), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return w, stop
}

func newUser(t *testing.T, pool *pgxpool.Pool, mode activity.Mode) uuid.UUID {
	t.Helper()
	id := uuid.New()
	_, err := pool.Exec(t.Context(), `INSERT INTO users (id, handle, token_hash, privacy) VALUES ($1, $2, '\x00', $3)`,
		id, strings.ReplaceAll(id.String(), "-", ""), mode)
	require.NoError(t, err)
	return id
}

// batch is n events a minute apart, the last at the present, with everything in them that may be private.
func batch(n int) *Batch {
	const present = 1_795_978_800
	b := &Batch{Received: n}
	for i := range n {
		b.Events = append(b.Events, activity.Event{
			ID: uuid.New(), TS: int64(present-60*(n-1-i)) * 1000, Lang: "my secret language", Keystrokes: 3, Lines: -1,
			Project: "secret", File: "secret.go", KeyFreq: `{"a":3}`,
		})
		b.Listed = append(b.Listed, false)
		b.places = append(b.places, place{index: i})
	}
	return b
}

func count(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func TestStoreCommitsBeforeItReturns(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	w, _ := startWriter(t, pool, nil)
	user := newUser(t, pool, activity.ModeFull)
	b := batch(20)
	b.Received = 22 // two exact repeats were left out
	b.ByReason = map[Reason]int{ReasonTooOld: 2, ReasonInvalidID: 1}
	stored, err := w.Store(t.Context(), user, b)
	require.NoError(t, err)
	require.Equal(t, Stored{Received: 22, Mode: activity.ModeFull}, stored)
	require.Equal(t, int64(20), count(t, pool, `SELECT count(*) FROM events WHERE user_id = $1 AND file = 'secret.go'
		AND project = 'secret' AND key_freq = '{"a":3}' AND lang = 'my secret language' AND keystrokes = 3 AND lines = -1`, user))
	require.Equal(t, int64(1), count(t, pool, `SELECT count(*) FROM hot_runs WHERE last_s - first_s = 19 * 60`), "one run: no gap over 15 minutes")
	require.Equal(t, int64(3), count(t, pool, `SELECT sum(count)::bigint FROM rejections WHERE user_id = $1`, user))
}

// The caller may have read any mode from a cache. What is stored follows the mode that stands in Postgres.
func TestStoreStripsByTheStoredMode(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	w, _ := startWriter(t, pool, nil)

	summary := newUser(t, pool, activity.ModeSummary)
	b := batch(2)
	b.Events[1].Lang, b.Listed[1] = "go", true
	stored, err := w.Store(t.Context(), summary, b)
	require.NoError(t, err)
	require.Equal(t, Stored{Received: 2, Mode: activity.ModeSummary}, stored)
	require.Zero(t, count(t, pool, `SELECT count(*) FROM events e WHERE e::text LIKE '%secret%' OR key_freq IS NOT NULL`))
	require.Equal(t, int64(1), count(t, pool, `SELECT count(*) FROM events WHERE lang = 'unknown'`))
	require.Equal(t, int64(1), count(t, pool, `SELECT count(*) FROM events WHERE lang = 'go'`))

	off := newUser(t, pool, activity.ModeOff)
	b = batch(2)
	b.ByReason = map[Reason]int{ReasonTooOld: 1}
	stored, err = w.Store(t.Context(), off, b)
	require.NoError(t, err)
	require.Equal(t, Stored{Mode: activity.ModeOff}, stored)
	require.Zero(t, count(t, pool, `SELECT (SELECT count(*) FROM events WHERE user_id = $1)
		+ (SELECT count(*) FROM hot_runs WHERE user_id = $1) + (SELECT count(*) FROM rejections)`, off))
}

func TestManyUsersInOneGroup(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	w, _ := startWriter(t, pool, func(c *WriterConfig) { c.Flushers = 1 })
	var wg sync.WaitGroup
	for i := range 100 {
		user := uuid.New()
		if i%10 != 0 {
			user = newUser(t, pool, activity.ModeFull)
		}
		wg.Go(func() {
			_, err := w.Store(t.Context(), user, batch(5))
			if i%10 == 0 {
				require.ErrorIs(t, err, ErrUnknownUser, "and the neighbours are stored")
			} else {
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(90*5), count(t, pool, `SELECT count(*) FROM events`))
}

// lockAlone holds a user's ingest lock alone, as a mode change does, until release is called.
func lockAlone(t *testing.T, pool *pgxpool.Pool, user uuid.UUID) (release func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, store.IngestLock(user))
	require.NoError(t, err)
	release = sync.OnceFunc(func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) })
	t.Cleanup(release)
	return release
}

func TestLockedUserHoldsUpNobodyAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	w, _ := startWriter(t, pool, func(c *WriterConfig) { c.Flushers, c.LockedTimeout = 1, time.Minute })
	locked, other := newUser(t, pool, activity.ModeFull), newUser(t, pool, activity.ModeFull)
	release := lockAlone(t, pool, locked)

	done := make(chan error, 1)
	go func() {
		_, err := w.Store(t.Context(), locked, batch(3))
		done <- err
	}()
	for range 5 {
		_, err := w.Store(t.Context(), other, batch(1))
		require.NoError(t, err, "the neighbour does not wait for the locked user")
	}
	select {
	case err := <-done:
		t.Fatalf("stored under the lock: %v", err)
	default:
	}
	require.Zero(t, count(t, pool, `SELECT count(*) FROM events WHERE user_id = $1`, locked))
	release()
	require.NoError(t, <-done)
	require.Equal(t, int64(3), count(t, pool, `SELECT count(*) FROM events WHERE user_id = $1`, locked))
}

// One request of a locked user is asked for at a time, however many wait, and a neighbour is stored beside them.
func TestLockedUserIsAskedForOncePerPause(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	w, _ := startWriter(t, pool, func(c *WriterConfig) { c.LockedPause, c.LockedTimeout = 50*time.Millisecond, time.Minute })
	locked, other := newUser(t, pool, activity.ModeFull), newUser(t, pool, activity.ModeFull)
	release := lockAlone(t, pool, locked)
	errs := make(chan error, 30)
	for range cap(errs) {
		go func() {
			_, err := w.Store(t.Context(), locked, batch(100))
			errs <- err
		}()
	}
	for range 20 {
		_, err := w.Store(t.Context(), other, batch(1))
		require.NoError(t, err)
	}
	release()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.Equal(t, int64(3000), count(t, pool, `SELECT count(*) FROM events WHERE user_id = $1`, locked))
}

// A group that fails because of one user stores the others.
func TestOneUsersFaultIsNotTheGroups(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	w, _ := startWriter(t, pool, func(c *WriterConfig) { c.Flushers = 1 })
	bad, first := newUser(t, pool, activity.ModeFull), newUser(t, pool, activity.ModeFull)
	for _, sql := range []string{
		`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '22003'; END $$`,
		`CREATE TRIGGER fail BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.user_id = '` + bad.String() + `') EXECUTE FUNCTION fail()`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	// While the writer is held up by a locked table, everybody gathers in one group.
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE events IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	results := make(chan error, 12)
	store := func(user uuid.UUID) {
		_, err := w.Store(t.Context(), user, batch(1))
		results <- err
	}
	go store(first)
	for range 10 {
		go store(newUser(t, pool, activity.ModeFull))
	}
	go store(bad)
	require.Eventually(t, func() bool {
		w.queue.mu.Lock()
		defer w.queue.mu.Unlock()
		return len(w.queue.waiting) >= 11
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, tx.Rollback(t.Context()))
	failed := 0
	for range cap(results) {
		if err := <-results; err != nil {
			failed++
		}
	}
	require.Equal(t, 1, failed)
	require.Equal(t, int64(11), count(t, pool, `SELECT count(*) FROM events`))
}

func TestLockedForTooLong(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	w, _ := startWriter(t, pool, func(c *WriterConfig) { c.LockedTimeout = 50 * time.Millisecond })
	user := newUser(t, pool, activity.ModeFull)
	lockAlone(t, pool, user)
	_, err := w.Store(t.Context(), user, batch(1))
	require.ErrorIs(t, err, ErrUserBusy)
	require.Zero(t, count(t, pool, `SELECT count(*) FROM events`))
}

// A finalize deletes the very events that are sent again, and holds the user's writer lock: ingest neither waits nor
// fails.
func TestStoreBesideAFinalize(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	w, _ := startWriter(t, pool, nil)
	user := newUser(t, pool, activity.ModeFull)
	b := batch(10)
	_, err := w.Store(t.Context(), user, b)
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`SELECT pg_advisory_xact_lock($1)`,
			`DELETE FROM events WHERE $1::bigint IS NOT NULL`,
			`DELETE FROM hot_runs WHERE $1::bigint IS NOT NULL`,
			`UPDATE users SET version = version + 1 WHERE $1::bigint IS NOT NULL`,
		} {
			if _, err := tx.Exec(t.Context(), sql, store.WriterLock(user)); err != nil {
				return err
			}
		}
		_, err := w.Store(t.Context(), user, b)
		return err
	}))
	require.Equal(t, int64(10), count(t, pool, `SELECT count(*) FROM events`))
}

func TestWhatWaitsIsStoredOnStop(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	cfg := DefaultWriterConfig()
	w := NewWriter(pool, testenv.Logger(t), cfg)
	user := newUser(t, pool, activity.ModeFull)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			_, err := w.Store(t.Context(), user, batch(2))
			require.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool {
		w.queue.mu.Lock()
		defer w.queue.mu.Unlock()
		return w.queue.size == 15
	}, 10*time.Second, time.Millisecond)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Run(stopped))
	wg.Wait()
	require.Equal(t, int64(10), count(t, pool, `SELECT count(*) FROM events`))

	_, err := w.Store(t.Context(), user, batch(1))
	require.ErrorIs(t, err, ErrStopped)
}

func TestCallerWhoGivesUp(t *testing.T) {
	t.Parallel()
	w := NewWriter(nil, testenv.Logger(t), DefaultWriterConfig()) // does not run
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := w.Store(ctx, uuid.New(), batch(1))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The horizon is Postgres's: whatever a process accepts, what lies before it is refused, and reported as refused.
func TestHorizonRefuses(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	w, _ := startWriter(t, pool, nil)
	user := newUser(t, pool, activity.ModeFull)
	b := batch(4) // a minute apart
	b.places[0].repeats, b.places[1].repeats, b.Received, b.Duplicates = 2, 1, 7, 3
	horizon := b.Events[1].Second() + 1
	_, err := pool.Exec(t.Context(), `UPDATE horizon SET from_s = $1`, horizon)
	require.NoError(t, err)

	stored, err := w.Store(t.Context(), user, b)
	require.NoError(t, err)
	require.Equal(t, 2, stored.Received)
	require.Zero(t, b.Duplicates)
	require.Equal(t, 5, b.RejectedTotal)
	require.Equal(t, map[Reason]int{ReasonTooOld: 5}, b.ByReason)
	require.Equal(t, []int{0, 0, 0, 1, 1}, indexes(b.Rejected))
	require.Equal(t, int64(2), count(t, pool, `SELECT count(*) FROM events WHERE ts >= $1`, horizon*1000))
	require.Equal(t, int64(2), count(t, pool, `SELECT count(*) FROM events`))
	require.Equal(t, int64(2), count(t, pool, `SELECT sum(count)::bigint FROM rejections WHERE reason = 'too_old'`), "each event once")

	// On the horizon itself an event is accepted; of a batch that is all too old nothing stays.
	b = batch(1)
	_, err = pool.Exec(t.Context(), `UPDATE horizon SET from_s = $1`, b.Events[0].Second())
	require.NoError(t, err)
	stored, err = w.Store(t.Context(), user, b)
	require.NoError(t, err)
	require.Equal(t, 1, stored.Received)
	old := batch(3)
	for i := range old.Events {
		old.Events[i].TS -= 86_400_000
	}
	runs := count(t, pool, `SELECT count(*) FROM hot_runs`)
	stored, err = w.Store(t.Context(), user, old)
	require.NoError(t, err)
	require.Zero(t, stored.Received)
	require.Equal(t, runs, count(t, pool, `SELECT count(*) FROM hot_runs`))
}

func indexes(rejected []Rejection) (out []int) {
	for _, r := range rejected {
		out = append(out, r.Index)
	}
	return out
}
