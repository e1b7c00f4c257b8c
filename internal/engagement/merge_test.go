package engagement_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/writebehind"
)

// mustShare applies shares as a flush of its own.
func (b *bundle) mustShare(t *testing.T, shares map[uuid.UUID]int64) writebehind.Flush {
	t.Helper()
	f := writebehind.Flush{ID: uuid.New(), TakenAt: clock.System{}.Now()}
	for id, n := range shares {
		f.Records, f.Deltas = append(f.Records, id), append(f.Deltas, n)
	}
	require.NoError(t, b.flusher.ApplyShares(t.Context(), f))
	return f
}

// Everything goes to the heir: what is cached, what is pending, the rows. Who gave to both has given one.
func TestMergeMovesWhatHangs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, ada, bob, eve := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	ids := b.mustSessions(t, owner, 3)
	b.mustExec(t, `UPDATE session_counters SET views = 7`)
	for _, s := range ids {
		b.mustKudos(t, ada, s, true)
		b.mustComment(t, ada, s, "x")
	}
	b.flush(t, ids[0], ids[2])
	b.mustKudos(t, bob, ids[1], true)
	b.mustKudos(t, bob, ids[2], true)
	b.mustKudos(t, eve, ids[2], true)
	b.mustKudos(t, ada, ids[2], false)
	gone := b.mustComment(t, eve, ids[1], "y")
	b.mustShare(t, map[uuid.UUID]int64{ids[0]: 1, ids[1]: 10, ids[2]: 100})

	b.upload(t, owner, 12, 37) // two bridges
	require.Equal(t, ids[:1], b.sessions(t, owner))
	b.requireExact(t)
	require.Equal(t, counts{Views: 21, Shares: 111, Kudos: 3, Comments: 4}, b.counts(t, ids[0]))

	// The old ids lead to the heir, for whatever is done.
	require.Equal(t, engagement.Given{SessionID: ids[0], Given: true, Kudos: 3}, b.mustKudos(t, eve, ids[1], true))
	require.Equal(t, engagement.Given{SessionID: ids[0], Given: false, Kudos: 2}, b.mustKudos(t, eve, ids[2], false))
	page, err := b.Comments(t.Context(), uuid.Nil, ids[2], nil, 10)
	require.NoError(t, err)
	require.Equal(t, ids[0], page.SessionID)
	require.Len(t, page.Comments, 4)
	require.NoError(t, b.DeleteComment(t.Context(), eve, gone.ID))
	b.mustShare(t, map[uuid.UUID]int64{ids[0]: 1, ids[1]: 1, ids[2]: 1, uuid.New(): 5})
	b.requireExact(t)
	require.Equal(t, counts{Views: 21, Shares: 114, Kudos: 2, Comments: 3}, b.counts(t, ids[0]))

	require.NoError(t, b.accounts.DeleteSession(t.Context(), owner, ids[0]))
	b.mustShare(t, map[uuid.UUID]int64{ids[0]: 1, ids[1]: 1})
	b.requireExact(t)
	for _, table := range []string{"session_counters", "kudos", "comments", "counter_deltas"} {
		require.Zero(t, b.mustCount(t, `SELECT count(*) FROM `+table), table)
	}
}

// A flush that comes again, whole, is not applied again.
func TestFlushOfSharesIsAppliedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 2)
	f := b.mustShare(t, map[uuid.UUID]int64{ids[0]: 2, ids[1]: 3})
	var flushing sync.WaitGroup
	for range 8 {
		flushing.Go(func() {
			if err := b.flusher.ApplyShares(t.Context(), f); err != nil {
				t.Errorf("apply: %v", err)
			}
		})
	}
	flushing.Wait()
	require.Equal(t, int64(2), b.counts(t, ids[0]).Shares)
	require.Equal(t, int64(3), b.counts(t, ids[1]).Shares)
}

// Sessions of a release that made no counters get theirs from the first flush, or from a merge.
func TestSessionsWithoutCounters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.mustUser(t, activity.ModeFull)
	ids := b.mustSessions(t, owner, 4)
	b.mustExec(t, `DELETE FROM session_counters`)
	b.mustShare(t, map[uuid.UUID]int64{ids[0]: 2})
	b.mustKudos(t, b.mustUser(t, activity.ModeFull), ids[1], true)
	b.flush(t, ids[1])
	require.Equal(t, int64(2), b.counts(t, ids[0]).Shares)
	require.Equal(t, int64(1), b.counts(t, ids[1]).Kudos)
	b.mustKudos(t, b.mustUser(t, activity.ModeFull), ids[3], true)
	b.upload(t, owner, 62)
	require.Equal(t, int64(1), b.counts(t, ids[2]).Kudos, "the heir had none")
	b.requireExact(t)
}

// atIt is people who give, take back, comment and delete, and processes that flush, all at once.
type atIt struct {
	*bundle
	t      *testing.T
	ids    []uuid.UUID // sessions, of which ever fewer exist
	shares atomic.Int64
}

// flushUntil flushes now these sessions and now those, and shares them.
func (a *atIt) flushUntil(ctx context.Context, n int) {
	for ; ctx.Err() == nil; n++ {
		at := func(i int) uuid.UUID { return a.ids[(n+i)%len(a.ids)] }
		if err := a.flusher.FlushDeltas(a.t.Context(), []uuid.UUID{at(0), at(3), at(7)}); err != nil {
			a.t.Errorf("flush: %v", err)
		}
		f := writebehind.Flush{ID: uuid.New(), TakenAt: clock.System{}.Now(), Records: []uuid.UUID{at(1), at(0)}, Deltas: []int64{1, 2}}
		if err := a.flusher.ApplyShares(a.t.Context(), f); err != nil {
			a.t.Errorf("apply: %v", err)
			continue
		}
		a.shares.Add(3)
	}
}

// engage is one person's changes.
func (a *atIt) engage(user uuid.UUID) {
	var mine []uuid.UUID
	for range 60 {
		s := a.ids[rand.IntN(len(a.ids))]
		var err error
		switch rand.IntN(4) {
		case 0, 1:
			_, err = a.Kudos(a.t.Context(), user, s, rand.IntN(3) > 0)
		case 2:
			var c engagement.Comment
			if c, _, err = a.Comment(a.t.Context(), user, s, "x"); err == nil {
				mine = append(mine, c.ID)
			}
		case 3:
			if len(mine) > 0 {
				err = a.DeleteComment(a.t.Context(), user, mine[len(mine)-1])
				mine = mine[:len(mine)-1]
			}
		}
		if err != nil && !errors.Is(err, engagement.ErrBusy) {
			a.t.Errorf("engage: %v", err)
		}
	}
}

// Sessions are merged one by one, users are deleted, and two processes flush, while everybody is at it: every count is exact.
func TestMergesWhileEverybodyIsAtIt(t *testing.T) {
	t.Parallel()
	const sessions, people = 16, 12
	b := setup(t)
	owner := b.mustUser(t, activity.ModeFull)
	a := &atIt{bundle: b, t: t, ids: b.mustSessions(t, owner, sessions)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var busy, flushing sync.WaitGroup
	for i := range 2 {
		flushing.Go(func() { a.flushUntil(ctx, i) })
	}
	for i := range people {
		u := b.mustUser(t, activity.ModeFull)
		busy.Go(func() {
			a.engage(u)
			if i%4 != 3 {
				return
			}
			if err := b.accounts.DeleteUser(t.Context(), u); err != nil && !errors.Is(err, account.ErrBusy) {
				t.Errorf("delete user: %v", err)
			}
		})
	}
	for gap := range sessions - 1 { // from behind, so that heirs are absorbed in their turn
		b.upload(t, owner, int64(sessions-2-gap)*25+12)
	}
	busy.Wait()
	stop()
	flushing.Wait()
	require.Equal(t, a.ids[:1], b.sessions(t, owner))
	b.requireExact(t)
	require.Equal(t, a.shares.Load(), b.counts(t, a.ids[0]).Shares)
	for _, stray := range []string{"kudos k WHERE NOT EXISTS (SELECT FROM users u WHERE u.id = k.user_id)",
		"comments c WHERE NOT EXISTS (SELECT FROM users u WHERE u.id = c.author_id)"} {
		require.Zero(t, b.mustCount(t, `SELECT count(*) FROM `+stray), stray)
	}
}

// A kudos that meets a merge half-way goes to the heir.
func TestKudosThatMeetsAMerge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, ada := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	ids := b.mustSessions(t, owner, 2)
	tx := testenv.Begin(t, b.pool)
	got, err := store.TryWriterLock(t.Context(), tx, owner)
	require.NoError(t, err)
	require.True(t, got)
	b.mustExec(t, `INSERT INTO events (user_id, id, ts, lang, keystrokes, lines) VALUES ($1, gen_random_uuid(), $2::bigint * 1000, 'go', 1, 1)`, owner, base+12*60)
	_, err = b.finalizer.FinalizeTx(t.Context(), tx, owner, nil)
	require.NoError(t, err)

	given := make(chan engagement.Given, 1)
	go func() {
		g, err := b.Kudos(context.WithoutCancel(t.Context()), ada, ids[1], true)
		if err != nil {
			t.Errorf("kudos: %v", err)
		}
		given <- g
	}()
	testenv.AwaitWaiters(t, b.pool, 1)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, engagement.Given{SessionID: ids[0], Given: true, Kudos: 1}, <-given)
	b.requireExact(t)
}
