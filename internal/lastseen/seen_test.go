package lastseen

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/writebehind"
)

func TestMain(m *testing.M) { testenv.Main(m) }

type bundle struct {
	*Seen
	pool    *pgxpool.Pool
	rdb     *redis.Client
	clock   *clock.Manual
	flusher *writebehind.Flusher
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: testenv.Postgres(t), rdb: testenv.Redis(t), clock: clock.NewManual(time.Date(2026, 6, 17, 9, 30, 0, 0, time.UTC))}
	b.Seen = New(b.pool, b.rdb, b.clock)
	b.flusher = writebehind.NewFlusher(b.pool, b.rdb, b.clock, Kind())
	return b
}

func (b *bundle) mustUser(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.New()
	_, err := b.pool.Exec(t.Context(), `INSERT INTO user_counters (user_id) VALUES ($1)`, id)
	require.NoError(t, err)
	return id
}

// touch notes a user whose mode is cached and whose token was found good, and says whether that was due.
func (b *bundle) touch(t *testing.T, id uuid.UUID) bool {
	t.Helper()
	mode := "mode:" + id.String()
	require.NoError(t, b.rdb.Set(t.Context(), mode, "1:full", 0).Err())
	n, err := touchScript.Run(t.Context(), b.rdb, b.keys(Touch{User: id, AuthKey: "none", ModeKey: mode}),
		b.args(Touch{User: id})...).Int()
	require.NoError(t, err)
	return n == 1
}

func (b *bundle) mustFlush(t *testing.T) writebehind.Count {
	t.Helper()
	stats, err := b.flusher.Flush(t.Context())
	require.NoError(t, err)
	return stats[Name]
}

func (b *bundle) at(t *testing.T, id uuid.UUID) *time.Time {
	t.Helper()
	at, err := b.At(t.Context(), id)
	require.NoError(t, err)
	return at
}

// The newest value is found wherever it is on its way.
func TestAt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, now := b.mustUser(t), b.clock.Now()
	require.Nil(t, b.at(t, id))
	require.Nil(t, b.at(t, uuid.New()))
	require.True(t, b.touch(t, id))
	require.Equal(t, now, *b.at(t, id))
	k := b.buffer(id)
	require.NoError(t, b.rdb.Rename(t.Context(), k.Buf, k.Proc).Err())
	require.Equal(t, now, *b.at(t, id), "in a batch")
	require.Equal(t, int64(1), b.mustFlush(t).Rows)
	require.Equal(t, now, *b.at(t, id), "in Postgres")
	require.Zero(t, b.rdb.Exists(t.Context(), k.Buf, k.Proc).Val())

	b.clock.Advance(time.Minute)
	require.False(t, b.touch(t, id), "once in five minutes")
	require.NoError(t, b.Forget(t.Context(), id))
	require.True(t, b.touch(t, id))
	require.Equal(t, now.Add(time.Minute), *b.at(t, id), "Redis first")
}

func TestNeverBackwards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, now := b.mustUser(t), b.clock.Now()
	apply := func(at time.Time) (rows int64) {
		require.NoError(t, store.WithTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
			rows, err = apply(ctx, tx, map[string]string{id.String(): strconv.FormatInt(at.UnixMilli(), 10), "junk": "1", uuid.NewString(): "x"})
			return err
		}))
		return rows
	}
	require.EqualValues(t, 1, apply(now))
	require.Zero(t, apply(now.Add(-time.Second)))
	require.Zero(t, apply(now))
	require.Equal(t, now, *b.at(t, id))
}

// A flush that waits for the row of a user who goes off judges by the row as it is then.
func TestAFlushBesideAChangeToOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.mustUser(t)
	require.True(t, b.touch(t, id))
	flushed := make(chan error, 1)
	require.NoError(t, store.WithTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := ChangeModeTx(ctx, tx, id, true); err != nil {
			return err
		}
		go func() {
			_, err := b.flusher.Flush(context.WithoutCancel(ctx))
			flushed <- err
		}()
		testenv.AwaitWaiters(t, b.pool, 1) // the flush has read who is to be written, and waits for the row
		return nil
	}))
	require.NoError(t, <-flushed)
	require.Nil(t, b.at(t, id))
	require.NoError(t, ChangeModeTx(t.Context(), b.pool, id, false))
	require.Nil(t, b.at(t, id))
	require.NoError(t, b.Forget(t.Context(), id))
	require.True(t, b.touch(t, id))
	require.Equal(t, int64(1), b.mustFlush(t).Rows)
}

// A statement touches a thousand users at most, and one column.
func TestManyUsers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const users = 2*usersPerStatement + 500
	_, err := b.pool.Exec(t.Context(), `INSERT INTO user_counters (user_id, views) SELECT gen_random_uuid(), 7 FROM generate_series(1, $1)`, users)
	require.NoError(t, err)
	rows, err := b.pool.Query(t.Context(), `SELECT user_id FROM user_counters`)
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	pipe := b.rdb.Pipeline()
	for _, id := range ids {
		pipe.HSet(t.Context(), b.buffer(id).Buf, id.String(), b.clock.Now().UnixMilli())
	}
	_, err = pipe.Exec(t.Context())
	require.NoError(t, err)
	require.Equal(t, writebehind.Count{Batches: 1, Entries: users, Rows: users}, b.mustFlush(t))
	var written int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM user_counters WHERE last_seen_at = $1 AND views = 7`, b.clock.Now()).Scan(&written))
	require.Equal(t, users, written)
}

// TestAtIsTheLaterOne: the clock of a process may be behind that of another one, whose value is in Postgres by now.
func TestAtIsTheLaterOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, now := b.mustUser(t), b.clock.Now()
	require.True(t, b.touch(t, id))
	b.mustFlush(t)
	require.NoError(t, b.rdb.Del(t.Context(), markerKey(b.shards, id)).Err())
	b.clock.Set(now.Add(-time.Hour))
	require.True(t, b.touch(t, id))
	require.Equal(t, now, *b.at(t, id))
	b.mustFlush(t)
	require.Equal(t, now, *b.at(t, id))
}
