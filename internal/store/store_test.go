package store_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestLockKeys(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	require.Equal(t, store.WriterLock(id), store.WriterLock(id))
	require.NotEqual(t, store.WriterLock(id), store.IngestLock(id), "a finalize must never hold up an upload")
	require.NotEqual(t, store.WriterLock(id), store.WriterLock(uuid.New()))
	// Processes of two versions must agree on the keys, or two of them would write one user at once.
	require.Equal(t, int64(-3461477122841769565), store.WriterLock(id))
	require.Equal(t, int64(7274381416943875343), store.IngestLock(id))
}

// Whatever the server's defaults are, each statement has a snapshot of its own: what is read after a lock must not be
// older than the lock. And what a hung process holds, the server lets go.
func TestServerDefaultsDecideNothing(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	admin, err := store.Open(t.Context(), url, store.Options{})
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	var name string
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name))
	for _, setting := range []string{"default_transaction_isolation TO 'serializable'", "timezone TO 'Asia/Tokyo'", "jit TO on"} {
		_, err = admin.Exec(t.Context(), `ALTER DATABASE `+pgx.Identifier{name}.Sanitize()+` SET `+setting)
		require.NoError(t, err)
	}
	pool, err := store.Open(t.Context(), url, store.Options{})
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	const settings = `SELECT current_setting('transaction_isolation'), current_setting('timezone'), current_setting('idle_in_transaction_session_timeout'),
		current_setting('jit')`
	var isolation, zone, idle, jit string
	var p store.Pipeline
	p.QueueRow(settings, func(r pgx.Row) error { return r.Scan(&isolation, &zone, &idle, &jit) })
	require.NoError(t, p.SendTx(t.Context(), pool))
	require.Equal(t, []string{"read committed", "UTC", "1min", "off"}, []string{isolation, zone, idle, jit})
	require.NoError(t, store.WithTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, settings).Scan(&isolation, &zone, &idle, &jit)
	}))
	require.Equal(t, "read committed", isolation)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), "postgres://u:hunter2@127.0.0.1:1/x", store.Options{})
	require.ErrorContains(t, err, "reach Postgres")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = store.Open(t.Context(), "postgres://u:hunter2@[::1", store.Options{})
	require.ErrorContains(t, err, "parse database URL")
	require.NotContains(t, err.Error(), "hunter2")
}

// With the simple protocol arguments would be SQL text; any other way keeps them apart from it.
func TestOpenRefusesArgumentsInSQLText(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	with := func(mode string) string {
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		return url + separator + "default_query_exec_mode=" + mode
	}
	_, err := store.Open(t.Context(), with("simple_protocol"), store.Options{})
	require.ErrorContains(t, err, "default_query_exec_mode=simple_protocol")
	const secret = "hunter2"
	for _, mode := range []string{"exec", "cache_describe", "describe_exec", "cache_statement"} {
		pool, err := store.Open(t.Context(), with(mode), store.Options{})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		var text string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT query || left($1::text, 0) FROM pg_stat_activity WHERE pid = pg_backend_pid()`,
			secret).Scan(&text))
		require.Contains(t, text, "$1")
		require.NotContains(t, text, secret)
	}
}

func TestMigrateTwice(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	log := slog.New(slog.DiscardHandler)
	applied, err := store.MigrateUp(t.Context(), pool, log)
	require.NoError(t, err)
	require.Empty(t, applied, "the test's database is migrated")
	missing, err := store.MissingMigrations(t.Context(), pool)
	require.NoError(t, err)
	require.Empty(t, missing)
	all, err := store.MigrateStatus(t.Context(), pool, log)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, m := range all {
		require.True(t, m.Applied, m.Name)
	}

	last := all[len(all)-1]
	_, err = pool.Exec(t.Context(), `DELETE FROM goose_db_version WHERE version_id = $1`, last.Version)
	require.NoError(t, err)
	missing, err = store.MissingMigrations(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, []string{last.Name}, missing)
	_, err = pool.Exec(t.Context(), `DROP TABLE goose_db_version`)
	require.NoError(t, err)
	missing, err = store.MissingMigrations(t.Context(), pool)
	require.NoError(t, err)
	require.Len(t, missing, len(all), "a database that was never migrated")
}

func TestWithTxRollsBack(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	insert := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO outbox (user_id, version) VALUES (gen_random_uuid(), 1)`)
		return err
	}
	count := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&n))
		return n
	}
	sentinel := errors.New("no")
	err := store.WithTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, insert(ctx, tx))
		return sentinel
	})
	require.ErrorIs(t, err, sentinel)
	require.Zero(t, count())

	// A caller who gives up in the middle leaves no transaction behind: the connection goes back clean.
	ctx, cancel := context.WithCancel(t.Context())
	err = store.WithTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, insert(ctx, tx))
		cancel()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, count())

	require.NoError(t, store.WithTx(t.Context(), pool, insert))
	require.Equal(t, 1, count())
}

func TestPipeline(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	q := dbsqlc.New()
	var p store.Pipeline
	require.NoError(t, p.SendTx(t.Context(), pool), "nothing queued, nothing sent")

	a, b := uuid.New(), uuid.New()
	for _, id := range []uuid.UUID{a, b} {
		require.NoError(t, q.OutboxUpsert(t.Context(), &p, id, 7))
	}
	var n int
	p.QueueRow(`SELECT count(*) FROM outbox`, func(r pgx.Row) error { return r.Scan(&n) })
	require.NoError(t, p.SendTx(t.Context(), pool))
	require.Equal(t, 2, n, "in order")

	// All or nothing.
	require.NoError(t, q.OutboxUpsert(t.Context(), &p, uuid.New(), 7))
	p.QueueRow(`SELECT 1/0`, func(r pgx.Row) error { return r.Scan(&n) })
	require.Equal(t, "22012", store.SQLState(p.SendTx(t.Context(), pool)))
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&n))
	require.Equal(t, 2, n)
	require.NoError(t, p.SendTx(t.Context(), pool), "what failed is not sent again")
	require.Zero(t, pool.Stat().AcquiredConns())

	_, err := p.Query(t.Context(), `SELECT 1`)
	require.Error(t, err)
	require.Error(t, p.QueryRow(t.Context(), `SELECT 1`).Scan(&n))
}

func TestWithWriterLock(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	user := uuid.New()
	ran := 0
	try := func(wait time.Duration) error {
		return store.WithWriterLock(t.Context(), pool, user, wait, func(ctx context.Context, tx pgx.Tx) error {
			ran++
			return nil
		})
	}
	require.NoError(t, try(0), "a free lock is taken without waiting")
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	free, err := store.TryWriterLock(t.Context(), holder, user)
	require.NoError(t, err)
	require.True(t, free)
	require.ErrorIs(t, try(20*time.Millisecond), store.ErrLocked)
	require.Equal(t, 1, ran)

	done := make(chan error, 1)
	go func() { done <- try(time.Minute) }()
	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, <-done, "it comes free")
	require.Equal(t, 2, ran)
}
