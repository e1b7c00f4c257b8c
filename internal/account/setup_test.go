package account

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// bundle is a Service on real servers, whose neighbours are recorded.
type bundle struct {
	*Service
	db    *pgxpool.Pool
	rdb   *redis.Client
	clock *clock.Manual

	mu        sync.Mutex
	enqueued  []int64 // versions
	published []activity.Mode
	finalize  func(ctx context.Context, tx pgx.Tx) error
	publish   error
	forgotten []uuid.UUID
	dropped   []uuid.UUID // what has gathered of them
}

func setup(t *testing.T, cfg Config) *bundle {
	t.Helper()
	b := &bundle{
		db:    testenv.Postgres(t),
		rdb:   testenv.Redis(t),
		clock: clock.NewManual(time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)),
	}
	s, err := New(cfg, Deps{
		DB: b.db, Modes: privacy.NewCache(b.rdb, b.clock, 0), Clock: b.clock, Log: testenv.Logger(t),
		FinalizeFunc: b.finalizeTx, EnqueueFunc: b.enqueueTx, PublishFunc: b.publishNow,
		DeleteSessionFunc: aggregate.NewFinalizer(outbox.Enqueue).DeleteSessionTx,
		ForgetFunc: func(_ context.Context, id uuid.UUID) error {
			b.forgotten = append(b.forgotten, id)
			return nil
		},
		ForgetPendingFunc: func(_ context.Context, id uuid.UUID) error {
			b.dropped = append(b.dropped, id)
			return nil
		},
	})
	require.NoError(t, err)
	b.Service = s
	return b
}

func (b *bundle) finalizeTx(ctx context.Context, tx pgx.Tx, _ uuid.UUID) error {
	if b.finalize == nil {
		return nil
	}
	return b.finalize(ctx, tx)
}

func (b *bundle) enqueueTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, version int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueued = append(b.enqueued, version)
	_, err := tx.Exec(ctx, `INSERT INTO outbox (user_id, version) VALUES ($1, $2)
		ON CONFLICT (user_id) DO UPDATE SET version = excluded.version`, userID, version)
	return err
}

// publishNow records the mode that is committed, and visible to others, when it is called.
func (b *bundle) publishNow(ctx context.Context, userID uuid.UUID) error {
	var mode activity.Mode
	err := b.db.QueryRow(ctx, `SELECT privacy FROM users WHERE id = $1`, userID).Scan(&mode)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.published = append(b.published, mode)
	return b.publish
}

func (b *bundle) mustUser(t *testing.T, mode activity.Mode) uuid.UUID {
	t.Helper()
	c, err := b.Create(t.Context(), NewUser{Handle: uuid.NewString(), Mode: mode})
	require.NoError(t, err)
	return c.ID
}

func (b *bundle) mustExec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.db.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (b *bundle) mustCount(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, b.db.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

// stored is the user's mode and version in Postgres.
func (b *bundle) stored(t *testing.T, userID uuid.UUID) (e privacy.Entry) {
	t.Helper()
	require.NoError(t, b.db.QueryRow(t.Context(), `SELECT version, privacy FROM users WHERE id = $1`, userID).Scan(&e.Version, &e.Mode))
	return e
}

// cached is the user's entry in the cache; the zero entry for none.
func (b *bundle) cached(t *testing.T, userID uuid.UUID) privacy.Entry {
	t.Helper()
	e, _, err := b.deps.Modes.Get(t.Context(), userID)
	require.NoError(t, err)
	return e
}

// mustStoreSecrets gives the user two hot events and a row in every other table that can hold a path.
func (b *bundle) mustStoreSecrets(t *testing.T, userID uuid.UUID) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, project, file, key_freq)
		 SELECT $1, gen_random_uuid(), n, 'go', 1, 1, 'secret', 'secret', '{"secret":1}' FROM generate_series(1, 2) n`,
		`INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, 0, 0)`,
		`INSERT INTO session_details (user_id, session_id, files, key_counts) VALUES ($1, gen_random_uuid(), '["secret"]', '["secret"]')`,
		`INSERT INTO archive_details (user_id, session_id, chunk, details) VALUES ($1, gen_random_uuid(), 0, 'secret')`,
	} {
		b.mustExec(t, sql, userID)
	}
}

// secrets counts the user's rows that hold one, wherever that is possible.
func (b *bundle) secrets(t *testing.T, userID uuid.UUID) int {
	t.Helper()
	return b.mustCount(t, `SELECT (SELECT count(*) FROM events e WHERE user_id = $1 AND e::text LIKE '%secret%')
		+ (SELECT count(*) FROM session_details d WHERE user_id = $1 AND d::text LIKE '%secret%')
		+ (SELECT count(*) FROM archive_details d WHERE user_id = $1 AND details = 'secret')`, userID)
}

func (b *bundle) hot(t *testing.T, userID uuid.UUID) int {
	t.Helper()
	return b.mustCount(t, `SELECT (SELECT count(*) FROM events WHERE user_id = $1)
		+ (SELECT count(*) FROM hot_runs WHERE user_id = $1)`, userID)
}

// hold takes a lock in a transaction of its own until the returned function is called, or the test ends.
func (b *bundle) hold(t *testing.T, lock string, key int64) (tx pgx.Tx, release func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	tx, err := b.db.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT `+lock+`($1)`, key)
	require.NoError(t, err)
	release = func() {
		if err := tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Error(err)
		}
	}
	t.Cleanup(release)
	return tx, release
}

// holdDeletes has deletes of users wait when all is erased but the user.
func (b *bundle) holdDeletes(t *testing.T) (release func()) {
	t.Helper()
	b.mustExec(t, `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NULL; END $$`)
	b.mustExec(t, `CREATE TRIGGER wait BEFORE DELETE ON users FOR EACH STATEMENT EXECUTE FUNCTION wait()`)
	_, release = b.hold(t, "pg_advisory_xact_lock", 42)
	return release
}

// mustSession makes a session of a user that ends now.
func (b *bundle) mustSession(t *testing.T, user uuid.UUID) uuid.UUID {
	t.Helper()
	id := uuid.New()
	b.mustExec(t, `INSERT INTO sessions VALUES ($1, $2, now() - interval '1 hour', now(), 'UTC', 1, 1, 1, 'go', 1, now())`, id, user)
	return id
}

// tryIngestLock says whether an ingest would get the user's lock now.
func (b *bundle) tryIngestLock(t *testing.T, userID uuid.UUID) (free bool) {
	t.Helper()
	require.NoError(t, b.db.QueryRow(t.Context(), `SELECT pg_try_advisory_xact_lock_shared($1)`, store.IngestLock(userID)).Scan(&free))
	return free
}
