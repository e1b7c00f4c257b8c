package writebehind

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// bundle is a buffer of counts by name, which are applied to a table of their own.
type bundle struct {
	*Buffer
	db   *pgxpool.Pool
	rdb  *redis.Client
	keys Keys
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{db: testenv.Postgres(t), rdb: testenv.Redis(t), keys: KeysOf("test", 0)}
	_, err := b.db.Exec(t.Context(), `CREATE TABLE counts (name text PRIMARY KEY, n bigint NOT NULL)`)
	require.NoError(t, err)
	b.Buffer = &Buffer{DB: b.db, Source: NewSource(b.rdb, b.keys), Apply: applyCounts, Record: NewRecord("test")}
	return b
}

func applyCounts(ctx context.Context, tx pgx.Tx, entries map[string]string) (rows int64, err error) {
	for name, text := range entries {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO counts VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET n = counts.n + $2`, name, n); err != nil {
			return 0, err
		}
		rows++
	}
	return rows, nil
}

func (b *bundle) gather(t *testing.T, name string, n int64) {
	t.Helper()
	require.NoError(t, b.rdb.HIncrBy(t.Context(), b.keys.Buf, name, n).Err())
}

func (b *bundle) counts(t *testing.T) map[string]int64 {
	t.Helper()
	rows, err := b.db.Query(t.Context(), `SELECT name, n FROM counts`)
	require.NoError(t, err)
	got := make(map[string]int64)
	var name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		got[name] = n
		return nil
	})
	require.NoError(t, err)
	return got
}

func (b *bundle) mustTake(t *testing.T) Batch {
	t.Helper()
	batch, ok, err := b.Source.Take(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	return batch
}

func (b *bundle) now(t *testing.T) (now time.Time) {
	t.Helper()
	require.NoError(t, b.db.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now))
	return now
}

func TestFlush(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c, err := b.Flush(t.Context())
	require.NoError(t, err)
	require.Zero(t, c)
	b.gather(t, "a", 2)
	b.gather(t, "b", 3)
	c, err = b.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, Count{Batches: 1, Entries: 2, Rows: 2}, c)
	b.gather(t, "a", 1)
	_, err = b.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"a": 3, "b": 3}, b.counts(t))
	require.Zero(t, b.rdb.DBSize(t.Context()).Val(), "nothing is left behind")
}

// A batch stays what it is, under its id, until it is done; what comes meanwhile gathers anew.
func TestTakenAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gather(t, "a", 1)
	first := b.mustTake(t)
	b.gather(t, "a", 10)
	again := b.mustTake(t)
	require.Equal(t, Batch{ID: first.ID, Taken: 2}, again)
	entries, err := b.Source.Read(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1"}, entries)
	// Only the last one who took it removes it.
	require.NoError(t, b.Source.Done(t.Context(), first))
	_, err = b.Source.Read(t.Context(), again)
	require.NoError(t, err)
	require.NoError(t, b.Source.Done(t.Context(), again))
	next := b.mustTake(t)
	require.NotEqual(t, first.ID, next.ID)
	require.Equal(t, int64(1), next.Taken)
	_, err = b.Source.Read(t.Context(), first)
	require.ErrorIs(t, err, ErrGone, "under the same key there is the next batch by now")
	require.NoError(t, b.Source.Done(t.Context(), again))
	_, err = b.Source.Read(t.Context(), next)
	require.NoError(t, err, "who comes late does not remove the next batch")
}

// A flusher that is stopped after reading and woken later applies nothing a second time.
func TestWokenFlusherAppliesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gather(t, "a", 5)
	askedAt, stopped := b.now(t), b.mustTake(t)
	entries, err := b.Source.Read(t.Context(), stopped)
	require.NoError(t, err)
	_, err = b.Flush(t.Context())
	require.NoError(t, err)
	b.gather(t, "a", 1)
	next := b.mustTake(t)

	c, err := b.apply(t.Context(), stopped, askedAt, entries)
	require.NoError(t, err)
	require.Equal(t, Count{Known: 1}, c)
	require.NoError(t, b.Source.Done(t.Context(), stopped))
	_, err = b.Source.Read(t.Context(), next)
	require.NoError(t, err)
	_, err = b.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"a": 6}, b.counts(t))
}

// A batch that was taken over an hour ago is not applied by who took it then: its id may be forgotten some day. Whoever
// takes it next applies it.
func TestStaleTaking(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gather(t, "a", 1)
	batch := b.mustTake(t)
	_, err := b.apply(t.Context(), batch, b.now(t).Add(-61*time.Minute), map[string]string{"a": "1"})
	require.ErrorIs(t, err, ErrStale)
	require.Empty(t, b.counts(t))
	_, err = b.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"a": 1}, b.counts(t))
}

func TestPruneKeepsWhatMayStillBeApplied(t *testing.T) {
	t.Parallel()
	b := setup(t)
	live, old, young, foreign := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	for id, row := range map[uuid.UUID]struct {
		source string
		days   int
	}{live: {"test", 30}, old: {"test", 8}, young: {"test", 6}, foreign: {"", 30}} {
		_, err := b.db.Exec(t.Context(), `INSERT INTO flushes VALUES ($1, $2, now() - $3 * interval '1 day')`, id, row.source, row.days)
		require.NoError(t, err)
	}
	require.NoError(t, b.rdb.HSet(t.Context(), b.keys.Proc, "a", 1).Err())
	require.NoError(t, b.rdb.HSet(t.Context(), b.keys.Meta, "id", live.String()).Err())
	f := NewFlusher(b.db, b.rdb, clock.System{}, Kind{Name: "test", Apply: applyCounts})
	ids, err := f.live(t.Context(), f.kinds[0])
	require.NoError(t, err)
	require.NoError(t, prune(t.Context(), b.db, "test", ids))
	kept := func() (list []uuid.UUID) {
		rows, err := b.db.Query(t.Context(), `SELECT id FROM flushes`)
		require.NoError(t, err)
		list, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		require.NoError(t, err)
		return list
	}
	require.ElementsMatch(t, []uuid.UUID{live, young, foreign}, kept())

	// The batch was applied a month ago, and nobody came to remove it. It is known still, and its id is kept for as long again.
	stats, err := f.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, Stats{"test": {Known: 1}}, stats)
	require.Empty(t, b.counts(t))
	require.NoError(t, prune(t.Context(), b.db, "test", nil))
	require.ElementsMatch(t, []uuid.UUID{live, young, foreign}, kept())
}

// With Postgres away nothing is taken, and nothing is lost however long that lasts.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gather(t, "a", 1)
	away, err := pgxpool.New(t.Context(), "postgres://u@127.0.0.1:1/d?connect_timeout=1")
	require.NoError(t, err)
	t.Cleanup(away.Close)
	b.DB = away
	_, err = b.Flush(t.Context())
	require.True(t, store.IsConnectionError(err), "%v", err)
	require.Zero(t, b.rdb.Exists(t.Context(), b.keys.Proc).Val())
	b.DB = b.db
	_, err = b.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"a": 1}, b.counts(t))
}

// Who loses a deadlock tries again under the same id; who fails otherwise leaves the batch to the next flush.
func TestTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gather(t, "a", 1)
	failures := []error{&pgconn.PgError{Code: "40P01"}, &pgconn.PgError{Code: "55P03"}}
	b.Apply = func(ctx context.Context, tx pgx.Tx, entries map[string]string) (int64, error) {
		rows, err := applyCounts(ctx, tx, entries)
		if len(failures) > 0 {
			err, failures = failures[0], failures[1:]
		}
		return rows, err
	}
	_, err := b.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"a": 1}, b.counts(t))

	b.gather(t, "a", 1)
	failures = []error{errors.New("no")}
	_, err = b.Flush(t.Context())
	require.Error(t, err)
	require.Equal(t, map[string]int64{"a": 1}, b.counts(t))
	_, err = b.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"a": 2}, b.counts(t))
}

// Many flushers beside many who gather: every count arrives, once. The batches are large, so that scans take several steps.
func TestConcurrentFlushers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const flushers, writers, rounds = 4, 4, 30
	want := make(map[string]int64)
	stop := make(chan struct{})
	var flushing, gathering sync.WaitGroup
	for range flushers {
		flushing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := b.Flush(t.Context()); err != nil && !lockedOut(err) {
					t.Error(err)
				}
			}
		})
	}
	for w := range writers {
		for n := range rounds {
			want[strconv.Itoa(n)] += int64(w + 1)
		}
		gathering.Go(func() {
			for n := range rounds {
				if err := b.rdb.HIncrBy(t.Context(), b.keys.Buf, strconv.Itoa(n), int64(w+1)).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	gathering.Wait()
	close(stop)
	flushing.Wait()
	_, err := b.Flush(t.Context())
	require.NoError(t, err)
	require.True(t, maps.Equal(want, b.counts(t)), "%v", b.counts(t))
}

func TestReadsALargeBatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pipe := b.rdb.Pipeline()
	const fields = 3*scanCount + 7
	for n := range fields {
		pipe.HIncrBy(t.Context(), b.keys.Buf, strconv.Itoa(n), 1)
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	entries, err := b.Source.Read(t.Context(), b.mustTake(t))
	require.NoError(t, err)
	require.Len(t, entries, fields)
}

// A batch whose last field went with its user leaves its id behind; the next batch does not get it.
func TestABatchThatVanished(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gather(t, "a", 1)
	first := b.mustTake(t)
	require.NoError(t, b.rdb.HDel(t.Context(), b.keys.Proc, "a").Err())
	b.gather(t, "b", 1)
	next := b.mustTake(t)
	require.NotEqual(t, first.ID, next.ID)
	require.Equal(t, int64(1), next.Taken)
	_, err := b.Source.Read(t.Context(), first)
	require.ErrorIs(t, err, ErrGone)
	_, err = b.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"b": 1}, b.counts(t))
}
