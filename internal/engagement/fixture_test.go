package engagement_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/writebehind"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// bundle is a Service on real servers, wired as the program wires it. Nothing flushes unless a test does.
type bundle struct {
	*engagement.Service
	flusher   *engagement.Flusher
	finalizer *aggregate.Finalizer
	accounts  *account.Service
	pool      *pgxpool.Pool
	rdb       redis.UniversalClient
	shares    *writebehind.Deltas
	arms      *writebehind.Arms
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return setupOn(t, testenv.RedisURL(t), writebehind.DebounceConfig{})
}

func setupOn(t *testing.T, redisURL string, cfg writebehind.DebounceConfig) *bundle {
	t.Helper()
	rdb, err := redisconn.New(redisURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	b := &bundle{pool: testenv.Postgres(t), rdb: rdb}
	b.flusher = engagement.NewFlusher(b.pool)
	b.shares, b.arms = b.counters(t, cfg)
	b.Service = engagement.NewService(b.pool, b.shares, b.arms, testenv.Logger(t))
	b.finalizer = aggregate.NewFinalizer(outbox.Enqueue, follow)
	b.accounts, err = account.New(account.Config{LockWait: time.Minute, Timeout: time.Minute}, account.Deps{
		DB: b.pool, Modes: privacy.NewCache(rdb, clock.System{}, 0), Clock: clock.System{}, Log: testenv.Logger(t),
		FinalizeFunc:      func(context.Context, pgx.Tx, uuid.UUID) error { return nil },
		DeleteSessionFunc: b.finalizer.DeleteSessionTx,
		EraseUserFunc: func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
			_, err := engagement.EraseUserTx(ctx, tx, id)
			return err
		},
		ForgetFunc:        func(context.Context, uuid.UUID) error { return nil },
		ForgetPendingFunc: func(context.Context, uuid.UUID) error { return nil },
		EnqueueFunc: func(ctx context.Context, tx pgx.Tx, id uuid.UUID, version int64) error {
			return outbox.Enqueue(ctx, tx, id, version)
		},
		PublishFunc: func(context.Context, uuid.UUID) error { return nil },
	})
	require.NoError(t, err)
	return b
}

func follow(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, c aggregate.Changed) error {
	var merged []engagement.Merge
	for _, m := range c.Merged {
		merged = append(merged, engagement.Merge(m))
	}
	return engagement.SessionsChanged(ctx, db, userID, c.Made, merged, c.Deleted)
}

// counters are those of one process.
func (b *bundle) counters(t *testing.T, cfg writebehind.DebounceConfig) (*writebehind.Deltas, *writebehind.Arms) {
	t.Helper()
	return writebehind.NewDeltas("shares", cfg, writebehind.DeltasDeps{
			DB: b.pool, Redis: b.rdb, Clock: clock.System{}, Log: testenv.Logger(t), ApplyFunc: b.flusher.ApplyShares,
		}), writebehind.NewArms("engaged", cfg, writebehind.ArmsDeps{
			Redis: b.rdb, Clock: clock.System{}, Log: testenv.Logger(t), FlushFunc: b.flusher.FlushDeltas, StaleFunc: b.flusher.Stale,
		})
}

func (b *bundle) mustUser(t *testing.T, mode activity.Mode) uuid.UUID {
	t.Helper()
	u, err := b.accounts.Create(t.Context(), account.NewUser{Handle: uuid.NewString(), Mode: mode})
	require.NoError(t, err)
	return u.ID
}

func (b *bundle) mustExec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (b *bundle) mustCount(t *testing.T, sql string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

// base is when the first session of every user ends.
var base = clock.System{}.Now().Add(-48 * time.Hour).Truncate(time.Second).Unix()

// upload stores events at so many minutes after base, and finalizes them.
func (b *bundle) upload(t *testing.T, user uuid.UUID, minutes ...int64) {
	t.Helper()
	for _, m := range minutes {
		at := base + m*60
		b.mustExec(t, `INSERT INTO events (user_id, id, ts, lang, keystrokes, lines) VALUES ($1, gen_random_uuid(), $2::bigint * 1000, 'go', 1, 1)`, user, at)
		b.mustExec(t, `INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, $2, $2)`, user, at)
	}
	res, err := b.finalizer.Finalize(t.Context(), b.pool, user, nil)
	require.NoError(t, err)
	require.False(t, res.Locked)
}

// sessions are a user's, the oldest first.
func (b *bundle) sessions(t *testing.T, user uuid.UUID) []uuid.UUID {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT id FROM sessions WHERE user_id = $1 ORDER BY started_at`, user)
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	return ids
}

// mustSessions makes sessions of one event each, 25 minutes apart: an event 12 minutes after one merges it with the next.
func (b *bundle) mustSessions(t *testing.T, user uuid.UUID, n int) []uuid.UUID {
	t.Helper()
	minutes := make([]int64, n)
	for i := range minutes {
		minutes[i] = int64(i) * 25
	}
	b.upload(t, user, minutes...)
	ids := b.sessions(t, user)
	require.Len(t, ids, n)
	return ids
}

// counts are what a session shows.
type counts struct{ Views, Shares, Kudos, Comments int64 }

func (b *bundle) counts(t *testing.T, session uuid.UUID) (c counts) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT views, shares, kudos, comments FROM session_counters WHERE session_id = $1`, session).
		Scan(&c.Views, &c.Shares, &c.Kudos, &c.Comments))
	return c
}

func (b *bundle) flush(t *testing.T, sessions ...uuid.UUID) {
	t.Helper()
	require.NoError(t, b.flusher.FlushDeltas(t.Context(), sessions))
}

func (b *bundle) mustKudos(t *testing.T, user, session uuid.UUID, give bool) engagement.Given {
	t.Helper()
	g, err := b.Kudos(t.Context(), user, session, give)
	require.NoError(t, err)
	require.Equal(t, give, g.Given)
	return g
}

func (b *bundle) mustComment(t *testing.T, user, session uuid.UUID, body string) engagement.Comment {
	t.Helper()
	c, _, err := b.Comment(t.Context(), user, session, body)
	require.NoError(t, err)
	return c
}

// requireExact flushes everything that is pending and compares all counters with the rows.
func (b *bundle) requireExact(t *testing.T) {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT DISTINCT session_id FROM counter_deltas`)
	require.NoError(t, err)
	pending, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	b.requireVerified(t)
	b.flush(t, pending...)
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM counter_deltas`))
	b.requireVerified(t)
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM session_counters c FULL JOIN sessions s ON s.id = c.session_id AND s.user_id = c.user_id
		WHERE s.id IS NULL OR c.session_id IS NULL OR least(c.kudos, c.comments, c.shares) < 0`), "one row of counters per session")
	for _, table := range []string{"kudos", "comments"} {
		require.Zero(t, b.mustCount(t, `SELECT count(*) FROM `+table+` k WHERE NOT EXISTS
			(SELECT FROM sessions s WHERE s.id = k.session_id AND s.user_id = k.owner_id)`), "%s of no session", table)
	}
}

func (b *bundle) requireVerified(t *testing.T) {
	t.Helper()
	found, err := engagement.NewVerifier(b.pool).Verify(t.Context(), false, func(int64, int64, string) {})
	require.NoError(t, err)
	require.Zero(t, found.Wrong, "%+v", found)
}
