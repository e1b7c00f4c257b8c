package outbox

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// TestPublishUsersWaitsForABuild instead of giving up.
func TestPublishUsersWaitsForABuild(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	day := boardOf(calendar.PeriodDay, "")
	id := f.user(1)
	f.change(id, 60, day)
	f.cycle()
	var g errgroup.Group
	building := f.stopAfter("LeaderboardPageBelow", func() {
		f.change(id, 50, day)
		g.Go(func() error { return f.publisher.PublishUsers(f.ctx, &noon, id, id) })
	})
	_, err := building.builder.Build(t.Context(), day)
	require.NoError(t, err)
	require.NoError(t, g.Wait())
	require.Zero(t, f.pending())
	f.requireBoards(false)
}

// TestWhoLeavesDuringABuildIsGoneWhenItIsOver, also when nothing is published after it: the builder has read the users before
// they left, and whoever made them leave was answered before the swap.
func TestWhoLeavesDuringABuildIsGoneWhenItIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	day := boardOf(calendar.PeriodDay, "")
	f.users(4)
	for n := 1; n <= 4; n++ {
		f.change(userID(n), 60, day)
	}
	f.cycle()
	building := f.stopAfter("LeaderboardPageBelow", func() {
		f.setPrivacy(userID(1), "off")
		f.delete(userID(2))
		f.change(userID(3), 0, day)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // it would wait for the build
		defer cancel()
		for n := 1; n <= 3; n++ {
			require.NoError(t, f.publisher.PublishUsers(ctx, &noon, userID(n)))
		}
		require.Equal(t, 3, f.pending(), "the note may be lost with the build")
	})
	_, err := building.builder.Build(t.Context(), day)
	require.NoError(t, err)
	scores, whole := f.scores(day)
	require.True(t, whole)
	require.Equal(t, map[uuid.UUID]int64{userID(4): 60}, scores)
	f.publish()
	require.Zero(t, f.pending())
	f.requireBoards(false)
}

// TestAFailedBuildIsCounted: a publisher that cannot build its boards must be seen.
func TestAFailedBuildIsCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost := f.stopAfter("LeaderboardPageBelow", func() {
		keys, err := f.rdb.Keys(t.Context(), "*:build:*").Result()
		require.NoError(t, err)
		require.NoError(t, f.rdb.Del(t.Context(), keys...).Err())
	})
	f.change(f.user(1), 60, boardOf(calendar.PeriodDay, ""))
	s, err := lost.publisher.Cycle(t.Context(), &noon)
	require.ErrorIs(t, err, leaderboard.ErrBuildLost)
	require.Equal(t, 1, s.Failed)
}

// TestTopLangIsAListedOne, with ties to the smaller key, and the same whether a board was built or published into.
func TestTopLangIsAListedOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.users(3)
	for _, total := range []struct {
		user    int
		lang    string
		seconds int64
	}{
		{1, "", 100}, {1, "klingon", 40}, {1, "go", 30}, {1, "c", 30}, {1, "c++", 0},
		{2, "", 90}, {2, "unknown", 90}, {3, "", 80}, {3, "go", 80},
	} {
		f.change(userID(total.user), total.seconds, boardOf(calendar.PeriodDay, total.lang))
	}
	reader := leaderboard.NewReader(f.pool, f.rdb, leaderboard.ReaderConfig{Languages: testLangs})
	tops := func() (tops []string) {
		p, err := reader.Page(t.Context(), noon, boardOf(calendar.PeriodDay, ""), leaderboard.Query{Limit: 10})
		require.NoError(t, err)
		for _, e := range p.Entries {
			top := ""
			if e.TopLang != nil {
				top = *e.TopLang
			}
			tops = append(tops, top)
		}
		return tops
	}
	want := []string{"c", "", "go"}
	require.Equal(t, want, tops(), "from Postgres")
	_, err := f.builder.Build(t.Context(), boardOf(calendar.PeriodDay, ""))
	require.NoError(t, err)
	require.Equal(t, want, tops(), "built")
	f.publish()
	require.Zero(t, f.pending())
	require.Equal(t, want, tops(), "published")
}

// TestAZeroThatWasMoreMeanwhileStays: between the snapshot that says which zeros were published and the lock of their rows the
// total grows, that is published, and it becomes zero again. Its removal is still to be published.
func TestAZeroThatWasMoreMeanwhileStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.user(1)
	day := boardOf(calendar.PeriodDay, "")
	f.change(id, 0, day) // version 1
	// A view in place of users makes the statement wait after its snapshot was taken.
	f.exec(`ALTER TABLE users RENAME TO real_users`)
	f.exec(`CREATE FUNCTION pause() RETURNS boolean LANGUAGE plpgsql VOLATILE AS
		$$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN true; END $$`)
	f.exec(`CREATE VIEW users AS SELECT * FROM real_users WHERE pause()`)
	tx, err := f.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(4711)`)
	require.NoError(t, err)

	var g errgroup.Group
	g.Go(func() error {
		return dbsqlc.New().OutboxDeleteZeroTotals(f.ctx, f.pool, []uuid.UUID{id}, []int64{1})
	})
	require.Eventually(t, func() bool {
		return f.count(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 4711
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
	}, 10*time.Second, 5*time.Millisecond)
	for _, seconds := range []int64{50, 0} {
		f.exec(`UPDATE totals SET seconds = $2 WHERE user_id = $1`, id, seconds)
		f.exec(`UPDATE real_users SET version = version + 1 WHERE id = $1`, id)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, g.Wait())
	require.Equal(t, 1, f.count(`SELECT count(*) FROM totals`), "it is zero at version 3, of which nothing was published")
	require.NoError(t, dbsqlc.New().OutboxDeleteZeroTotals(t.Context(), f.pool, []uuid.UUID{id}, []int64{3}))
	require.Zero(t, f.count(`SELECT count(*) FROM totals`))
}

// TestPublishUsersSaysThatRedisIsAway, which is another thing than boards that are behind: nobody reads them meanwhile.
func TestPublishUsersSaysThatRedisIsAway(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	f := fixtureOn(t, openRedis(t, server.URL()))
	day := boardOf(calendar.PeriodDay, "")
	f.change(f.user(1), 60, day)
	f.cycle()
	require.NoError(t, f.rdb.Set(t.Context(), "{lb:day:"+day.StartsOn.String()+":}:m", "not a hash", 0).Err())
	f.setPrivacy(userID(1), "off")
	err := f.publisher.PublishUsers(t.Context(), &noon, userID(1))
	require.ErrorIs(t, err, ErrPending)
	require.NotErrorIs(t, err, leaderboard.ErrAway)

	gone, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	err = f.publisher.awaitBuilt(gone, []leaderboard.Board{day})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, leaderboard.ErrAway, "it was the request that ended")

	require.NoError(t, server.Kill(t.Context()))
	err = f.publisher.PublishUsers(t.Context(), &noon, userID(1))
	require.ErrorIs(t, err, ErrPending)
	require.ErrorIs(t, err, leaderboard.ErrAway)
	require.Equal(t, 1, f.pending())
}

// TestPublishUsersInTooLittleTime: whoever runs out of time in the middle of a call to Redis has not seen that Redis is away.
func TestPublishUsersInTooLittleTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.change(f.user(1), 60, boardOf(calendar.PeriodDay, ""))
	f.cycle()
	f.setPrivacy(userID(1), "off")
	f.rdb.AddHook(outOfTime{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := f.publisher.PublishUsers(ctx, &noon, userID(1))
	require.ErrorIs(t, err, ErrPending)
	require.ErrorContains(t, err, leaderboard.ErrAway.Error())
	require.NotErrorIs(t, err, leaderboard.ErrAway)
}

// outOfTime holds pipelines up until their callers' time is up.
type outOfTime struct{}

func (outOfTime) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (outOfTime) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (outOfTime) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, _ []redis.Cmder) error {
		<-ctx.Done()
		return ctx.Err()
	}
}
