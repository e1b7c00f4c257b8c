package engagement_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/writebehind"
)

func TestDeletedUserTakesEverythingAlong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	going, staying := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	own, other := b.mustSessions(t, going, 2), b.mustSessions(t, staying, 2)
	for _, s := range other {
		b.mustKudos(t, going, s, true)
		b.mustComment(t, going, s, "x")
		b.mustComment(t, staying, s, "y")
	}
	b.flush(t, other[0])
	for _, s := range own {
		b.mustKudos(t, staying, s, true)
		b.mustComment(t, staying, s, "x")
	}
	b.flush(t, own[0])
	require.NoError(t, b.accounts.DeleteUser(t.Context(), going))
	for _, where := range []string{"session_counters WHERE user_id", "counter_deltas WHERE owner_id", "kudos WHERE owner_id",
		"kudos WHERE user_id", "comments WHERE owner_id", "comments WHERE author_id"} {
		require.Zero(t, b.mustCount(t, `SELECT count(*) FROM `+where+` = $1`, going), where)
	}
	b.requireExact(t)
	for _, s := range other {
		require.Equal(t, counts{Comments: 1}, b.counts(t, s))
	}
}

// A merge that moves a user's kudos away under the hands of who deletes the user does not save them.
func TestDeletedUserWhoseKudosMove(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, going := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	ids := b.mustSessions(t, owner, 2)
	b.mustKudos(t, going, ids[1], true)
	b.mustComment(t, going, ids[1], "x")
	tx := testenv.Begin(t, b.pool)
	_, err := store.TryWriterLock(t.Context(), tx, owner)
	require.NoError(t, err)
	b.mustExec(t, `INSERT INTO events (user_id, id, ts, lang, keystrokes, lines) VALUES ($1, gen_random_uuid(), $2::bigint * 1000, 'go', 1, 1)`, owner, base+12*60)
	_, err = b.finalizer.FinalizeTx(t.Context(), tx, owner, nil)
	require.NoError(t, err)
	deleted := make(chan error, 1)
	go func() { deleted <- b.accounts.DeleteUser(t.Context(), going) }()
	testenv.AwaitWaiters(t, b.pool, 1)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-deleted)
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM kudos`))
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM comments`))
	b.requireExact(t)
	require.Equal(t, counts{}, b.counts(t, ids[0]))
}

// Who is being deleted gives nothing more, whatever was in flight.
func TestKudosOfAUserWhoIsBeingDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	going := b.mustUser(t, activity.ModeFull)
	s := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 1)[0]
	tx := testenv.Begin(t, b.pool)
	_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, store.IngestLock(going))
	require.NoError(t, err)
	given := make(chan error, 1)
	go func() {
		_, err := b.Kudos(t.Context(), going, s, true)
		given <- err
	}()
	testenv.AwaitWaiters(t, b.pool, 1)
	_, err = tx.Exec(t.Context(), `DELETE FROM users WHERE id = $1`, going)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-given, engagement.ErrOff)
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM kudos`))
}

func TestVerifyAndHeal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, ada := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	ids := b.mustSessions(t, owner, 5)
	for _, s := range ids {
		b.mustKudos(t, ada, s, true)
		b.mustComment(t, ada, s, "x")
	}
	b.flush(t, ids[:2]...)
	b.requireVerified(t)
	b.mustExec(t, `UPDATE session_counters SET kudos = kudos + 5 WHERE session_id = $1`, ids[0])
	b.mustExec(t, `UPDATE session_counters SET comments = comments - 3 WHERE session_id = $1`, ids[3])
	b.mustExec(t, `DELETE FROM session_counters WHERE session_id = $1`, ids[4])
	verify := func(heal bool) engagement.Found {
		found, err := engagement.NewVerifier(b.pool).Verify(t.Context(), heal, func(int64, int64, string) {})
		require.NoError(t, err)
		return found
	}
	want := engagement.Found{Sessions: 5, Wrong: 3, Missing: 1, Kudos: 5, Comments: 3}
	require.Equal(t, want, verify(false))
	want.Healed = 3
	require.Equal(t, want, verify(true))
	require.Equal(t, engagement.Found{Sessions: 5}, verify(true))
	b.requireExact(t)
	for _, s := range ids {
		require.Equal(t, counts{Kudos: 1, Comments: 1}, b.counts(t, s))
	}
}

// Healing beside flushes and changes miscounts nothing.
func TestHealWhileEverybodyIsAtIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 1)[0]
	done := make(chan struct{})
	users := make([]uuid.UUID, 8)
	for i := range users {
		users[i] = b.mustUser(t, activity.ModeFull)
	}
	go func() {
		defer close(done)
		for i := range 120 {
			if _, err := b.Kudos(t.Context(), users[i%8], s, i%3 != 2); err != nil {
				t.Errorf("kudos: %v", err)
			}
			if i%5 == 0 {
				if err := b.flusher.FlushDeltas(t.Context(), []uuid.UUID{s}); err != nil {
					t.Errorf("flush: %v", err)
				}
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		b.mustExec(t, `UPDATE session_counters SET kudos = kudos + 7`)
		_, err := engagement.NewVerifier(b.pool).Verify(t.Context(), true, func(int64, int64, string) {})
		require.NoError(t, err)
	}
	b.requireExact(t)
}

// Without Redis kudos and comments are stored, and flushed all the same; a share is not recorded, and says so.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	rdb := testenv.OwnRedis(t)
	b := setupOn(t, rdb.URL(), writebehind.DebounceConfig{Delay: time.Millisecond, CallTimeout: 50 * time.Millisecond})
	s := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 1)[0]
	recorded, err := b.Share(t.Context(), s)
	require.NoError(t, err)
	require.True(t, recorded)
	require.NoError(t, rdb.Kill(t.Context()))
	recorded, err = b.Share(t.Context(), s)
	require.NoError(t, err)
	require.False(t, recorded)
	b.mustKudos(t, b.mustUser(t, activity.ModeFull), s, true)
	b.mustComment(t, b.mustUser(t, activity.ModeFull), s, "x")

	stop := run(t, b.arms)
	require.Eventually(t, func() bool { return b.counts(t, s) == counts{Kudos: 1, Comments: 1} }, 30*time.Second, 5*time.Millisecond)
	stop()
	b.requireExact(t)
}

// A full Redis refuses a share, and kudos do not mind.
func TestWithAFullRedis(t *testing.T) {
	t.Parallel()
	b := setupOn(t, testenv.OwnRedis(t).URL(), writebehind.DebounceConfig{})
	s := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 1)[0]
	require.NoError(t, b.shares.Add(t.Context(), s, 3))
	require.NoError(t, b.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	recorded, err := b.Share(t.Context(), s)
	require.NoError(t, err)
	require.False(t, recorded)
	b.mustKudos(t, b.mustUser(t, activity.ModeFull), s, true)
	stop := run(t, b.shares)
	stop() // it flushes what it holds before it ends
	require.Equal(t, int64(3), b.counts(t, s).Shares, "what was taken before can still be drained")
	keys, err := b.rdb.Keys(t.Context(), "{wb:shares:*").Result()
	require.NoError(t, err)
	require.Empty(t, keys)
}

// What a dead process never armed is found where it is kept.
func TestSweepFindsWhatNobodyArmed(t *testing.T) {
	t.Parallel()
	b := setupOn(t, testenv.RedisURL(t), writebehind.DebounceConfig{})
	ids := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 2)
	for _, s := range ids {
		b.mustKudos(t, b.mustUser(t, activity.ModeFull), s, true)
	}
	b.mustExec(t, `UPDATE counter_deltas SET at = now() - interval '31 seconds' WHERE session_id = $1`, ids[0])
	_, other := b.counters(t, writebehind.DebounceConfig{})
	stop := run(t, other)
	require.Eventually(t, func() bool { return b.counts(t, ids[0]).Kudos == 1 }, 30*time.Second, 5*time.Millisecond)
	stop()
	require.Zero(t, b.counts(t, ids[1]).Kudos, "it is still its own process's")
	due, err := b.rdb.ZRange(t.Context(), "{wb:engaged:0}:due", 0, -1).Result()
	require.NoError(t, err)
	require.Equal(t, []string{ids[1].String()}, due)
}

// A Redis that hangs costs a request its own bound and no more.
func TestWithAHangingRedis(t *testing.T) {
	t.Parallel()
	b := setupOn(t, testenv.RedisURL(t), writebehind.DebounceConfig{CallTimeout: 30 * time.Millisecond})
	s := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 1)[0]
	c, err := redisconn.New(hangingURL(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	b.rdb = c
	shares, arms := b.counters(t, writebehind.DebounceConfig{CallTimeout: 30 * time.Millisecond})
	service := engagement.NewService(b.pool, shares, arms, testenv.Logger(t))
	recorded, err := service.Share(t.Context(), s)
	require.NoError(t, err)
	require.False(t, recorded)
	_, err = service.Kudos(t.Context(), b.mustUser(t, activity.ModeFull), s, true)
	require.NoError(t, err)
	require.Equal(t, int64(1), b.mustCount(t, `SELECT count(*) FROM counter_deltas`))
}

// A flush that is under way is waited for before rows and deltas are counted.
func TestHealWaitsForAFlush(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 1)[0]
	b.mustKudos(t, b.mustUser(t, activity.ModeFull), s, true)
	b.mustExec(t, `UPDATE session_counters SET kudos = 9`)
	tx := testenv.Begin(t, b.pool)
	_, err := dbsqlc.New().EngagementFlushDeltas(t.Context(), tx, []uuid.UUID{s})
	require.NoError(t, err)
	healed := make(chan error, 1)
	go func() {
		_, err := engagement.NewVerifier(b.pool).Verify(t.Context(), true, func(int64, int64, string) {})
		healed <- err
	}()
	testenv.AwaitWaiters(t, b.pool, 1)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-healed)
	b.requireExact(t)
	require.Equal(t, int64(1), b.counts(t, s).Kudos)
}
