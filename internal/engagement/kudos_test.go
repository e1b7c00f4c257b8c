package engagement_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/testenv"
)

func TestKudos(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, ada, bob := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeSummary)
	s := b.mustSessions(t, owner, 1)[0]
	for i, step := range []struct {
		user uuid.UUID
		give bool
		want int64
	}{
		{ada, false, 0}, {ada, true, 1}, {ada, true, 1}, {bob, true, 2}, {ada, false, 1}, {ada, false, 1}, {ada, true, 2},
	} {
		got := b.mustKudos(t, step.user, s, step.give)
		require.Equal(t, engagement.Given{SessionID: s, Given: step.give, Kudos: step.want}, got, "step %d", i)
	}
	require.Zero(t, b.counts(t, s).Kudos, "the cached count follows")
	require.Equal(t, int64(1), b.rdb.ZCard(t.Context(), "{wb:engaged:0}:due").Val())
	b.flush(t, s)
	require.Equal(t, int64(2), b.counts(t, s).Kudos)
	b.requireExact(t)
}

func TestKudosRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	full, off := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	seen, hidden := b.mustSessions(t, full, 1)[0], b.mustSessions(t, off, 1)[0]
	b.mustKudos(t, off, seen, true)
	require.NoError(t, b.accounts.ChangeMode(t.Context(), off, activity.ModeOff))
	for _, tt := range []struct {
		user, session uuid.UUID
		give          bool
		want          error
	}{
		{full, seen, true, engagement.ErrOwnSession}, {full, seen, false, engagement.ErrOwnSession},
		{full, hidden, true, engagement.ErrNotFound}, {full, hidden, false, engagement.ErrNotFound},
		{full, uuid.New(), true, engagement.ErrNotFound},
		{off, seen, true, engagement.ErrOff}, {off, seen, false, nil},
		{uuid.New(), seen, true, engagement.ErrOff},
	} {
		_, err := b.Kudos(t.Context(), tt.user, tt.session, tt.give)
		require.ErrorIs(t, err, tt.want)
	}
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM kudos`), "who went off may take back what was given")
	b.requireExact(t)
}

// A burst is one update of the row, however many gave.
func TestBurstOfKudosIsOneUpdate(t *testing.T) {
	t.Parallel()
	const givers = 1000
	b := setup(t)
	s := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 1)[0]
	b.mustExec(t, `INSERT INTO users (id, handle, token_hash) SELECT gen_random_uuid(), 'giver-' || n, '\x00' FROM generate_series(1, $1::int) n`, givers)
	rows, err := b.pool.Query(t.Context(), `SELECT id FROM users WHERE handle LIKE 'giver-%'`)
	require.NoError(t, err)
	var g errgroup.Group
	g.SetLimit(32)
	for rows.Next() {
		var id uuid.UUID
		require.NoError(t, rows.Scan(&id))
		g.Go(func() error {
			_, err := b.Kudos(t.Context(), id, s, true)
			return err
		})
	}
	require.NoError(t, g.Wait())
	b.flush(t, s)
	require.Equal(t, int64(givers), b.counts(t, s).Kudos)
	require.Eventually(t, func() bool {
		// Each connection tells what it has done when it is idle, or asked.
		for range b.pool.Config().MaxConns {
			b.mustExec(t, `SELECT pg_stat_force_next_flush()`)
		}
		return b.mustCount(t, `SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'kudos'`) == givers &&
			b.mustCount(t, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'session_counters'`) > 0
	}, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, int64(1), b.mustCount(t, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'session_counters'`))
}

// Two flushers at once use up each delta once.
func TestFlushersAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sessions := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 3)
	users := make([]uuid.UUID, 40)
	for i := range users {
		users[i] = b.mustUser(t, activity.ModeFull)
	}
	var giving, flushing sync.WaitGroup
	stop := make(chan struct{})
	for i := range 3 {
		flushing.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				ids := []uuid.UUID{sessions[n%3], sessions[(n+1)%3]}
				if err := b.flusher.FlushDeltas(t.Context(), ids); err != nil {
					t.Errorf("flush: %v", err)
				}
			}
		})
	}
	for i, u := range users {
		giving.Go(func() {
			for n := range 6 {
				if _, err := b.Kudos(t.Context(), u, sessions[(i+n)%3], n%4 != 3); err != nil {
					t.Errorf("kudos: %v", err)
				}
			}
		})
	}
	giving.Wait()
	close(stop)
	flushing.Wait()
	b.requireExact(t)
	require.Positive(t, b.mustCount(t, `SELECT sum(kudos)::bigint FROM session_counters`))
}

// A delta that is committed while a flush waits for the counters stays for the next flush.
func TestDeltaThatComesDuringAFlush(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.mustUser(t, activity.ModeFull)
	s := b.mustSessions(t, owner, 1)[0]
	b.mustKudos(t, b.mustUser(t, activity.ModeFull), s, true)
	tx := testenv.Begin(t, b.pool)
	_, err := tx.Exec(t.Context(), `SELECT FROM session_counters WHERE session_id = $1 FOR UPDATE`, s)
	require.NoError(t, err)
	flushed := make(chan error, 1)
	go func() { flushed <- b.flusher.FlushDeltas(t.Context(), []uuid.UUID{s}) }()
	testenv.AwaitWaiters(t, b.pool, 1)
	require.Equal(t, int64(2), b.mustKudos(t, b.mustUser(t, activity.ModeFull), s, true).Kudos, "nobody who gives waits for a flush")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-flushed)
	require.Equal(t, int64(1), b.counts(t, s).Kudos)
	b.requireExact(t)
	require.Equal(t, int64(2), b.counts(t, s).Kudos)
}
