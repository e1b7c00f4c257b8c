package following_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/following"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

type bundle struct {
	*following.Service
	app *app.App
}

func setup(t *testing.T) *bundle {
	t.Helper()
	rdb, err := redisconn.New(testenv.RedisURL(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	a, err := app.New(testenv.Postgres(t), rdb, clock.System{}, testenv.Logger(t), app.Options{
		Account: account.Config{LockWait: time.Minute, Timeout: time.Minute},
	})
	require.NoError(t, err)
	return &bundle{Service: a.Following, app: a}
}

func (b *bundle) users(t *testing.T, handles ...string) (ids []uuid.UUID) {
	t.Helper()
	for _, h := range handles {
		u, err := b.app.Accounts.Create(t.Context(), account.NewUser{Handle: h})
		require.NoError(t, err)
		ids = append(ids, u.ID)
	}
	return ids
}

func (b *bundle) turn(t *testing.T, user uuid.UUID, mode activity.Mode) {
	t.Helper()
	require.NoError(t, b.app.Accounts.ChangeMode(t.Context(), user, mode))
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.app.DB.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (b *bundle) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, b.app.DB.QueryRow(t.Context(), `SELECT count(*) FROM `+sql, args...).Scan(&n))
	return n
}

// handles are whom a user follows, as the user sees them.
func (b *bundle) handles(t *testing.T, user uuid.UUID) (list []string) {
	t.Helper()
	followed, err := b.List(t.Context(), user)
	require.NoError(t, err)
	for _, f := range followed {
		require.WithinDuration(t, clock.System{}.Now(), f.At, time.Minute)
		list = append(list, f.Handle)
	}
	return list
}

func TestFollow(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	ada, grace, edsger := ids[0], ids[1], ids[2]
	for range 2 {
		require.NoError(t, b.Follow(ctx, ada, "grace"))
		require.NoError(t, b.Follow(ctx, ada, "edsger"))
	}
	require.Equal(t, []string{"edsger", "grace"}, b.handles(t, ada))
	require.Empty(t, b.handles(t, grace), "to be followed is not to follow")
	circle, err := b.Circle(ctx, ada)
	require.NoError(t, err)
	require.ElementsMatch(t, ids, circle)
	require.ErrorIs(t, b.Follow(ctx, ada, "ada"), following.ErrSelf)
	for _, nobody := range []string{"nobody", "Grace", "", "a b", "grace'", "grace\x00", "\xff"} {
		require.ErrorIs(t, b.Follow(ctx, ada, nobody), following.ErrNotFound, nobody)
		require.NoError(t, b.Unfollow(ctx, ada, nobody))
	}

	b.turn(t, grace, activity.ModeOff)
	require.Equal(t, []string{"edsger"}, b.handles(t, ada))
	require.ErrorIs(t, b.Follow(ctx, edsger, "grace"), following.ErrNotFound)
	require.ErrorIs(t, b.Follow(ctx, grace, "edsger"), following.ErrOff)
	b.turn(t, grace, activity.ModeSummary)
	require.Equal(t, []string{"edsger", "grace"}, b.handles(t, ada), "it was only hidden")
	b.turn(t, grace, activity.ModeOff)
	for range 2 {
		require.NoError(t, b.Unfollow(ctx, ada, "grace"), "also who is not shown")
	}
	b.turn(t, grace, activity.ModeFull)
	require.Equal(t, []string{"edsger"}, b.handles(t, ada))
}

func TestFollowingIsLimited(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	b.exec(t, `INSERT INTO follows (user_id, followee_id) SELECT $1, gen_random_uuid() FROM generate_series(1, $2::int)`,
		ids[0], following.MaxFollowing-1)
	tx := testenv.Begin(t, b.app.DB)
	_, err := tx.Exec(ctx, `LOCK TABLE follows IN SHARE MODE`) // they may count, and wait before they insert
	require.NoError(t, err)
	results := make(chan error, 2)
	for _, h := range []string{"grace", "edsger"} {
		go func() { results <- b.Follow(ctx, ids[0], h) }()
	}
	testenv.AwaitWaiters(t, b.app.DB, 2)
	require.NoError(t, tx.Rollback(ctx))
	taken, refused := <-results, <-results
	if taken != nil {
		taken, refused = refused, taken
	}
	require.NoError(t, taken)
	require.ErrorIs(t, refused, following.ErrTooMany)
	require.Equal(t, following.MaxFollowing, b.count(t, `follows WHERE user_id = $1`, ids[0]))
}

func TestDeletedUserFollowsNobody(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	for _, pair := range [][2]int{{0, 1}, {1, 0}, {1, 2}, {2, 1}} {
		require.NoError(t, b.Follow(ctx, ids[pair[0]], []string{"ada", "grace", "edsger"}[pair[1]]))
	}
	require.NoError(t, b.app.Accounts.DeleteUser(ctx, ids[0]))
	require.Equal(t, 2, b.count(t, `follows`))
	require.Zero(t, b.count(t, `follows WHERE user_id = $1 OR followee_id = $1`, ids[0]))
	require.ErrorIs(t, b.Follow(ctx, ids[0], "grace"), following.ErrOff)
}

// Who is being deleted is not followed any more, whatever was in flight.
func TestFollowAUserWhoIsBeingDeleted(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace")
	tx := testenv.Begin(t, b.app.DB)
	_, err := tx.Exec(ctx, `SELECT FROM users WHERE id = $1 FOR UPDATE`, ids[1]) // as every delete does first
	require.NoError(t, err)
	followed := make(chan error, 1)
	go func() { followed <- b.Follow(ctx, ids[0], "grace") }()
	testenv.AwaitWaiters(t, b.app.DB, 1)
	require.NoError(t, following.EraseUserTx(ctx, tx, ids[1]))
	_, err = tx.Exec(ctx, `DELETE FROM users WHERE id = $1`, ids[1])
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	require.ErrorIs(t, <-followed, following.ErrNotFound)
	require.Zero(t, b.count(t, `follows`))
}

// Who is about to go off follows nobody: the change of mode comes wholly before, or wholly after.
func TestFollowingWaitsForAChangeOfMode(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace")
	tx := testenv.Begin(t, b.app.DB)
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, store.IngestLock(ids[0])) // as a change of mode does first
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `UPDATE users SET privacy = 'off' WHERE id = $1`, ids[0])
	require.NoError(t, err)
	followed := make(chan error, 1)
	go func() { followed <- b.Follow(ctx, ids[0], "grace") }()
	testenv.AwaitWaiters(t, b.app.DB, 1)
	require.NoError(t, tx.Commit(ctx))
	require.ErrorIs(t, <-followed, following.ErrOff)
	require.Zero(t, b.count(t, `follows`))
}

// session stores a session of one minute that started so many minutes ago.
func (b *bundle) session(t *testing.T, user uuid.UUID, minutesAgo int, lang string) (id uuid.UUID) {
	t.Helper()
	id = uuid.New()
	start := clock.System{}.Now().Truncate(time.Minute).Add(-time.Duration(minutesAgo) * time.Minute)
	b.exec(t, `INSERT INTO sessions VALUES ($1, $2, $3, $4, 'UTC', 1, 30, 2, $5, 10, $3)`, id, user, start, start.Add(time.Minute), lang)
	b.exec(t, `INSERT INTO session_counters (user_id, session_id, kudos) VALUES ($1, $2, 3)`, user, id)
	return id
}

func TestFeed(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger", "stranger")
	ada, grace, edsger := ids[0], ids[1], ids[2]
	require.NoError(t, b.Follow(ctx, ada, "grace"))
	require.NoError(t, b.Follow(ctx, ada, "edsger"))
	var want []uuid.UUID
	for i := range 7 { // two of them at the same time: larger ids first
		one, other := b.session(t, grace, i, "go"), b.session(t, edsger, i, "go")
		if one.String() < other.String() {
			one, other = other, one
		}
		want = append(want, one, other)
	}
	b.session(t, ada, 1, "go")
	b.session(t, ids[3], 1, "go")
	read := func(limit int) (got []uuid.UUID) {
		var after *sessions.Cursor
		for {
			page, err := b.Feed(ctx, ada, after, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Entries), limit)
			for _, e := range page.Entries {
				require.EqualValues(t, 60, e.Session.Duration())
				require.EqualValues(t, 3, e.Session.Counts.Kudos)
				got = append(got, e.Session.ID)
			}
			if page.Next == nil {
				return got
			}
			after = page.Next
		}
	}
	for _, limit := range []int{1, 2, 3, 14, 50} {
		require.Equal(t, want, read(limit), "limit %d: neither one's own nor strangers'", limit)
	}
	b.turn(t, edsger, activity.ModeOff)
	require.Len(t, read(3), 7)
	require.NoError(t, b.Unfollow(ctx, ada, "grace"))
	require.Empty(t, read(3))
}

// Names of languages that are not listed are free text, which only users on full show.
func TestFeedHidesUnlistedLanguages(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace")
	require.NoError(t, b.Follow(ctx, ids[0], "grace"))
	b.session(t, ids[1], 2, "my secret language")
	for mode, want := range map[activity.Mode]string{activity.ModeFull: "my secret language", activity.ModeSummary: "unknown"} {
		b.turn(t, ids[1], mode)
		page, err := b.Feed(ctx, ids[0], nil, 10)
		require.NoError(t, err)
		require.Equal(t, want, page.Entries[0].Session.TopLang)
		require.Equal(t, "grace", page.Entries[0].By.Handle)
	}
}
