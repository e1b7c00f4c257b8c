package account

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

// finalizer has a bundle finalize in truth.
func (b *bundle) finalizer() *aggregate.Finalizer {
	f := aggregate.NewFinalizer(outbox.Enqueue)
	b.Service.deps.FinalizeFunc = func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
		_, err := f.FinalizeTx(ctx, tx, id, nil)
		return err
	}
	return f
}

// mustStoreEvents gives the user an event a second, from so many seconds ago on, as one upload would.
func (b *bundle) mustStoreEvents(t *testing.T, user uuid.UUID, ago, n, perSecond int) {
	t.Helper()
	b.mustExec(t, `INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, file, project, key_freq)
		SELECT $1, gen_random_uuid(), (floor(extract(epoch FROM statement_timestamp())) - $2 + i / $4) * 1000, 'go', 1, 0,
			'secret/' || i % 100, 'secret', '{"a":1}' FROM generate_series(0, $3::int - 1) i`, user, ago, n, perSecond)
	b.mustExec(t, `INSERT INTO hot_runs (user_id, first_s, last_s)
		SELECT $1, s, s + ($3::int - 1) / $4::int FROM (SELECT floor(extract(epoch FROM statement_timestamp()))::bigint - $2::int AS s) d
		WHERE $3::int > 0`, user, ago, n, perSecond)
}

// Whoever has more hot events than may be finalized on the spot leaves as everybody does: the open run is dropped, what
// has ended becomes a session, later and without paths.
func TestOffOfAHeavyUser(t *testing.T) {
	t.Parallel()
	for _, from := range []activity.Mode{activity.ModeFull, activity.ModeSummary} {
		t.Run(string(from), func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{Timeout: time.Minute})
			finalizer := b.finalizer()
			user := b.mustUser(t, from)
			b.mustStoreEvents(t, user, 80_000, 100, 1)    // ended
			b.mustStoreEvents(t, user, 5_000, 50_100, 10) // open
			b.mustExec(t, `DELETE FROM hot_runs`)         // the marks as one that the scanner merged over a deleted stretch
			b.mustExec(t, `INSERT INTO hot_runs (user_id, first_s, last_s) SELECT $1, min(ts) / 1000, max(ts) / 1000 FROM events`, user)
			if from == activity.ModeSummary {
				b.mustExec(t, `UPDATE events SET file = NULL, project = NULL, key_freq = NULL`)
			}
			require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeOff))
			require.Equal(t, 100, b.mustCount(t, `SELECT count(*) FROM events`), "what has ended stays, and nothing of the open run")
			require.Zero(t, b.mustCount(t, `SELECT count(*) FROM events WHERE file IS NOT NULL OR project IS NOT NULL OR key_freq IS NOT NULL`))
			require.Zero(t, b.mustCount(t, `SELECT count(*) FROM sessions`))

			_, err := aggregate.New(b.db, finalizer, clock.System{}, testenv.Logger(t), 1).Cycle(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM sessions WHERE events = 100 AND ended_at - started_at = interval '159 s'`))
			require.Zero(t, b.mustCount(t, `SELECT count(*) FROM session_details`)+b.mustCount(t, `SELECT count(*) FROM archive_details`))
			require.Zero(t, b.hot(t, user))
		})
	}
}

// counter counts statements.
type counter struct{ n int }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n++
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// mustDecode is a batch of one event, with a path.
func mustDecode(t *testing.T, at time.Time) *ingest.Batch {
	t.Helper()
	body := fmt.Sprintf(`{"events":[{"id":%q,"ts":%d,"lang":"go","file":"kept","keystrokes":1,"lines":0}]}`, uuid.New(), at.UnixMilli())
	batch, err := ingest.Decode([]byte(body), at, ingest.DefaultLimits(), languages.New())
	require.NoError(t, err)
	require.Equal(t, 1, batch.Received)
	return batch
}

// Leaving full takes as many statements for a long history as for none, and holds nothing that anybody else needs: others
// upload while the change stands before its commit.
func TestLeavingFullIsAFewStatementsAndOneUsersLocks(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Timeout: time.Minute})
	count := &counter{}
	traced, err := store.Open(t.Context(), b.db.Config().ConnString(), store.Options{Tracer: count})
	require.NoError(t, err)
	t.Cleanup(traced.Close)
	writer := ingest.NewWriter(b.db, testenv.Logger(t), ingest.DefaultWriterConfig())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- writer.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})

	other := b.mustUser(t, activity.ModeFull)
	var took []int
	for _, sessions := range []int{0, 500} {
		b.Service.deps.DB = b.db
		user := b.mustUser(t, activity.ModeFull)
		b.mustStoreEvents(t, user, 500, sessions, 1)
		b.mustExec(t, `INSERT INTO session_details (user_id, session_id, files)
			SELECT $1, gen_random_uuid(), (SELECT jsonb_agg(jsonb_build_object('path', 'secret/' || f, 'changes', f)) FROM generate_series(1, 100) f)
			FROM generate_series(1, $2::int)`, user, sessions)
		b.mustExec(t, `INSERT INTO archive_details (user_id, session_id, chunk, details)
			SELECT user_id, session_id, 0, 'secret' FROM session_details WHERE user_id = $1`, user)
		b.Service.deps.DB = &onCommit{DB: traced, fn: func() {
			require.False(t, b.tryIngestLock(t, user))
			stored, err := writer.Store(t.Context(), other, mustDecode(t, b.clock.Now()))
			require.NoError(t, err)
			require.Equal(t, 1, stored.Received)
		}}
		count.n = 0
		require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeSummary))
		took = append(took, count.n)
		require.Zero(t, b.secrets(t, user))
	}
	require.Equal(t, took[0], took[1])
	require.Equal(t, 2, b.mustCount(t, `SELECT count(*) FROM events WHERE user_id = $1 AND file = 'kept'`, other))
}
