package outbox

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

func TestCyclePublishesAndClears(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.users(3)
	for n := 1; n <= 3; n++ {
		f.change(userID(n), int64(60*n), spread("c++")...)
	}
	f.change(userID(3), 30, boardOf(calendar.PeriodDay, "klingon")) // no board
	s := f.cycle()
	require.Equal(t, Stats{Users: 3, Boards: 8, Rows: 24, Built: 14}, s, "10 kept spans, and c++ in the 4 that hold today")
	require.Zero(t, f.pending())
	f.requireBoards(false)

	require.Equal(t, Stats{}, f.cycle(), "nothing is left to do")
	f.change(userID(2), 500, boardOf(calendar.PeriodDay, ""), boardOf(calendar.PeriodDay, "go"), boardOf(calendar.PeriodAllTime, "go"))
	s = f.cycle()
	require.Equal(t, 1, s.Users)
	require.Equal(t, 2, s.Built, "the first seconds in go, today and ever")
	require.Zero(t, f.pending())
	f.requireBoards(false)
}

func TestEnqueueKeepsTheNewestVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, version := range []int64{3, 5, 4} {
		require.NoError(t, Enqueue(t.Context(), f.pool, userID(1), version))
	}
	require.Equal(t, 5, f.count(`SELECT version FROM outbox`))
	f.exec(`UPDATE outbox SET pending_at = now() - interval '1 hour'`)
	require.NoError(t, Enqueue(t.Context(), f.pool, userID(1), 6))
	pending, oldest, err := f.publisher.Backlog(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, pending)
	require.InDelta(t, time.Hour, oldest, float64(time.Minute), "still behind since then")
	// In a pipeline it is sent with the rest of the transaction.
	var pipe store.Pipeline
	require.NoError(t, Enqueue(t.Context(), &pipe, userID(2), 1))
	require.Equal(t, 1, f.pending())
	require.NoError(t, pipe.Send(t.Context(), f.pool))
	require.Equal(t, 2, f.pending())
}

func TestZeroTotalsGoWithTheirRemoval(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.user(1)
	f.change(id, 60, spread("go")...)
	f.cycle()
	old := leaderboard.Board{Span: calendar.SpanOf(calendar.PeriodDay, today-100)}
	f.change(id, 0, append(spread("go"), old)...)
	require.Equal(t, 9, f.count(`SELECT count(*) FROM totals`))
	f.cycle()
	require.Zero(t, f.pending())
	require.Zero(t, f.count(`SELECT count(*) FROM totals`), "also those of spans that have no board")
	f.requireBoards(false)
}

// TestAZeroThatCameAfterTheReadStays until its own removal is published: else the board would keep the old seconds.
func TestAZeroThatCameAfterTheReadStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.user(1)
	day := boardOf(calendar.PeriodDay, "")
	f.cycle()
	f.change(id, 60, day)
	f.publish() // which learns the generation
	f.change(id, 70, day)
	f.stopNext(f.publisher, func() { f.change(id, 0, day) })
	require.Equal(t, Stats{Users: 1, Boards: 1, Rows: 1}, f.publish())
	require.Equal(t, 1, f.count(`SELECT count(*) FROM totals WHERE seconds = 0`))
	require.Equal(t, 1, f.pending())
	f.publish()
	require.Zero(t, f.pending())
	require.Zero(t, f.count(`SELECT count(*) FROM totals`))
	f.requireBoards(false)
}

func TestOffUsersLeaveAndComeBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.users(2)
	for n := 1; n <= 2; n++ {
		f.change(userID(n), 60, spread("c#")...)
	}
	f.cycle()
	f.setPrivacy(userID(1), "off")
	require.Equal(t, 8, f.publish().Rows)
	for _, b := range spread("c#") {
		scores, whole := f.scores(b)
		require.True(t, whole)
		require.Equal(t, map[uuid.UUID]int64{userID(2): 60}, scores)
	}
	require.Equal(t, 16, f.count(`SELECT count(*) FROM totals`), "the totals are still the user's")
	f.setPrivacy(userID(1), "summary")
	f.publish()
	f.requireBoards(false)
	scores, _ := f.scores(spread("c#")[0])
	require.Len(t, scores, 2)
}

// TestDeletedUsersLeaveEveryBoard, although no row says any more which ones they were on. Boards that only they were on,
// and what is left of boards that are not whole, count as well.
func TestDeletedUsersLeaveEveryBoard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone, stays := f.user(1), f.user(2)
	f.change(gone, 60, append(spread("c#"), spread("go")...)...)
	before := leaderboard.Board{Span: leaderboard.Published(noon)[len(calendar.Kept(noon))], Lang: "c"}
	f.change(gone, 60, before)
	f.change(stays, 60, spread("c#")...)
	f.cycle()
	_, err := f.builder.Build(t.Context(), before) // as another process keeps it whose clock is behind
	require.NoError(t, err)
	halved := boardOf(calendar.PeriodAllTime, "go")
	halvedKeys, err := f.rdb.Keys(t.Context(), "{lb:alltime:*:go}:z").Result()
	require.NoError(t, err)
	require.Len(t, halvedKeys, 1)
	require.NoError(t, f.rdb.Del(t.Context(), halvedKeys...).Err())

	f.delete(gone)
	require.NoError(t, f.publisher.PublishUsers(t.Context(), &noon, gone))
	require.Zero(t, f.pending())
	f.requireBoards(false)
	for _, p := range calendar.Periods {
		b := boardOf(p, "go")
		scores, whole := f.scores(b)
		require.Equal(t, b != halved, whole)
		require.Empty(t, scores)
	}
	scores, whole := f.scores(before)
	require.True(t, whole)
	require.Empty(t, scores)
	// Nothing of the user is left in Redis but the number that fences.
	keys, err := f.rdb.Keys(t.Context(), "*:m").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		value := f.rdb.HGet(t.Context(), key, gone.String()).Val()
		require.Contains(t, []string{"", "3\x00"}, value, key)
	}
}

// TestAStoppedPublisherWritesNothingOlder: it read, was stopped while others did something, and goes on.
func TestAStoppedPublisherWritesNothingOlder(t *testing.T) {
	t.Parallel()
	day := boardOf(calendar.PeriodDay, "")
	for name, meanwhile := range map[string]func(f *fixture, id uuid.UUID){
		"growth":   func(f *fixture, id uuid.UUID) { f.change(id, 90, day); f.publish() },
		"decrease": func(f *fixture, id uuid.UUID) { f.change(id, 10, day); f.publish() },
		"removal":  func(f *fixture, id uuid.UUID) { f.change(id, 0, day); f.publish() },
		"off":      func(f *fixture, id uuid.UUID) { f.setPrivacy(id, "off"); f.publish() },
		"delete":   func(f *fixture, id uuid.UUID) { f.delete(id); f.publish() },
		"Redis emptied": func(f *fixture, id uuid.UUID) {
			f.delete(id)
			f.publish()
			require.NoError(f.t, f.rdb.FlushDB(f.ctx).Err())
			f.cycle()
		},
		"Redis emptied, and back": func(f *fixture, id uuid.UUID) {
			f.change(id, 0, day)
			f.publish()
			require.NoError(f.t, f.rdb.FlushDB(f.ctx).Err())
			f.cycle()
			f.change(id, 20, day)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id := f.user(1)
			f.cycle()
			f.change(id, 60, day)
			f.publish() // the other one knows its boards
			f.change(id, 70, day)
			stopped := newProcess(f.pool, f.rdb)
			require.NoError(t, stopped.publisher.PublishUsers(t.Context(), &noon, id)) // so does this one
			f.change(id, 80, day)
			f.stopNext(stopped.publisher, func() { meanwhile(f, id) })
			_, err := stopped.publisher.PublishPending(t.Context(), &noon)
			require.NoError(t, err)
			f.publish()
			require.Zero(t, f.pending())
			f.requireBoards(false)
		})
	}
}

// TestGenerationsLearnedAfterTheReadAreNotUsed: a concurrent round of the same process may learn the generation of a
// board that was built after this round read its totals.
func TestGenerationsLearnedAfterTheReadAreNotUsed(t *testing.T) {
	t.Parallel()
	var g generations
	b := boardOf(calendar.PeriodDay, "")
	before := g.now()
	require.Empty(t, g.get(b, before))
	g.learn(b, "one")
	require.Empty(t, g.get(b, before))
	after := g.now()
	require.Equal(t, "one", g.get(b, after))
	g.learn(b, "one")
	require.Equal(t, "one", g.get(b, after), "learning it again does not make it younger")
	g.learn(b, "two")
	require.Empty(t, g.get(b, after))
	require.Equal(t, "two", g.get(b, g.now()))
	g.keep(calendar.Kept(noon))
	require.Equal(t, "two", g.get(b, g.now()))
	g.keep(nil)
	require.Empty(t, g.get(b, g.now()))
}

// TestWithinOneProcess is that case from outside: one round stops after its read, another one of the same publisher
// removes the user and learns the new generation of the board.
func TestWithinOneProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.user(1)
	day := boardOf(calendar.PeriodDay, "")
	f.cycle()
	f.change(id, 60, day)
	f.user(2)
	f.change(id, 70, day)
	f.stopNext(f.publisher, func() {
		f.change(id, 0, day)
		f.publish()
		_, err := f.builder.Build(t.Context(), day)
		require.NoError(t, err)
		f.change(userID(2), 5, day) // somebody else, with whom the new generation is learned
		f.publish()
	})
	f.publish()
	f.requireBoards(false)
}

// TestManyPublishersAtOnce: they may do each other's work, but never undo it, lose a user, or lock each other up.
func TestManyPublishersAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const users = 200
	f.users(users)
	f.cycle()
	var g errgroup.Group
	for w := range 2 {
		g.Go(func() error { // a writer per half of the users, as the lock of each user sees to
			random := rand.New(rand.NewPCG(uint64(w), 7))
			for range 400 {
				id := userID(1 + w + 2*random.IntN(users/2))
				err := store.WithTx(f.ctx, f.pool, func(ctx context.Context, tx pgx.Tx) error {
					for _, b := range spread(testLangs[random.IntN(len(testLangs))]) {
						if _, err := tx.Exec(ctx, `INSERT INTO totals VALUES ($1, $2, $3, $4, $5)
							ON CONFLICT (user_id, period, starts_on, lang) DO UPDATE SET seconds = excluded.seconds`,
							id, b.Period, b.StartsOn, b.Lang, random.IntN(3)); err != nil {
							return err
						}
					}
					return raise(ctx, tx, id)
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 3 {
		other := newProcess(f.pool, f.rdb)
		g.Go(func() error {
			for range 15 {
				if _, err := other.publisher.Cycle(f.ctx, &noon); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	f.cycle()
	require.Zero(t, f.pending())
	f.requireBoards(false)
	require.Zero(t, f.count(`SELECT count(*) FROM totals WHERE seconds = 0`))
}

// TestPublishingWhileABoardIsBuilt: users wait in the outbox, and what they published before or after is not undone by
// the swap, whether the builder had read them already or not.
func TestPublishingWhileABoardIsBuilt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	day := boardOf(calendar.PeriodDay, "")
	f.users(4)
	for n := 1; n <= 4; n++ {
		f.change(userID(n), int64(n), day)
	}
	f.cycle()
	building := f.stopAfter("LeaderboardPageBelow", func() {
		f.change(userID(1), 100, day) // has moved in the order that the builder walks in
		f.change(userID(2), 0, day)
		f.setPrivacy(userID(3), "off")
		f.delete(userID(4))
		s := f.publish()
		require.Equal(t, 4, s.Left)
		require.Equal(t, 4, f.pending(), "nobody may be cleared by a board that is not there yet")
		_, whole := f.scores(day)
		require.False(t, whole)

		ctx, cancel := context.WithTimeout(t.Context(), 3*buildPoll)
		defer cancel()
		err := f.publisher.PublishUsers(ctx, &noon, userID(1))
		require.ErrorIs(t, err, ErrPending)
		require.NotErrorIs(t, err, leaderboard.ErrAway)
	})
	_, err := building.builder.Build(t.Context(), day)
	require.NoError(t, err)
	f.publish()
	require.Zero(t, f.pending())
	f.requireBoards(false)
	scores, _ := f.scores(day)
	require.Equal(t, map[uuid.UUID]int64{userID(1): 100}, scores)
}

func TestPublishUsersOfNobodyPending(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.NoError(t, f.publisher.PublishUsers(t.Context(), &noon))
	require.NoError(t, f.publisher.PublishUsers(t.Context(), &noon, userID(1)))
}

// TestTheNextCycleBuildsWhatWasLost: one key of a board, or everything.
func TestTheNextCycleBuildsWhatWasLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.users(50)
	for n := 1; n <= 50; n++ {
		f.change(userID(n), int64(n), spread("go")...)
	}
	f.cycle()
	for _, lost := range []string{"{lb:week:*}:z", "{lb:alltime:*}:m", "*"} {
		keys, err := f.rdb.Keys(t.Context(), lost).Result()
		require.NoError(t, err)
		require.NoError(t, f.rdb.Del(t.Context(), keys...).Err())
		// Before the cycle, or within it: publishing may not make a part of a board.
		f.change(userID(1), 77, spread("go")...)
		f.publish()
		f.requireBoards(true)
		require.NotZero(t, f.cycle().Built)
		require.Zero(t, f.pending())
		f.requireBoards(false)
	}
}

// TestABrokenBoardHoldsUpItsUsersOnly, also when they are a whole page; and the next cycle mends it.
func TestABrokenBoardHoldsUpItsUsersOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const others = 3
	f.users(pageUsers + others)
	changeAll := func() {
		for n := 1; n <= pageUsers+others; n++ {
			lang := "c"
			if n > pageUsers {
				lang = "go"
			}
			f.change(userID(n), 60, boardOf(calendar.PeriodDay, lang), boardOf(calendar.PeriodAllTime, lang))
		}
	}
	changeAll()
	f.cycle()
	keys, err := f.rdb.Keys(t.Context(), "{lb:day:*:c}:m").Result()
	require.NoError(t, err)
	require.NoError(t, f.rdb.Set(t.Context(), keys[0], "not a hash", 0).Err())
	changeAll()
	s, err := f.publisher.PublishPending(t.Context(), &noon)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, Stats{Users: others, Left: pageUsers, Boards: 3, Rows: pageUsers + 2*others}, s)
	require.Equal(t, pageUsers, f.pending())
	f.cycle()
	require.Zero(t, f.pending())
	f.requireBoards(false)
}

// TestACycleBuildsWhatItFindsMissing: the first seconds in a language, committed after the cycle looked what is there.
func TestACycleBuildsWhatItFindsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.users(2)
	f.cycle()
	of := func(lang string) []leaderboard.Board {
		return []leaderboard.Board{boardOf(calendar.PeriodDay, lang), boardOf(calendar.PeriodAllTime, lang)}
	}
	other := f.stopAfter("LeaderboardLanguagesWithTotals", func() { f.change(userID(1), 60, of("go")...) })
	// stopDB waits for a first row, so there must be one.
	f.change(userID(2), 60, of("c")...)
	s, err := other.publisher.Cycle(t.Context(), &noon)
	require.NoError(t, err)
	require.Equal(t, 4, s.Built)
	require.Zero(t, f.pending())
	f.requireBoards(false)
}

// TestRestoredDatabase: the boards are newer than the totals. Rows stay, until the board is built anew by hand.
func TestRestoredDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.user(1)
	day := boardOf(calendar.PeriodDay, "")
	for range 3 {
		f.change(id, 60, day)
		f.cycle()
	}
	f.exec(`UPDATE users SET version = 1`)
	f.change(id, 50, day)
	s := f.publish()
	require.Equal(t, Stats{Left: 1, Boards: maxRounds, Refused: maxRounds}, s)
	require.Equal(t, 1, f.pending())
	_, err := f.builder.Build(t.Context(), day)
	require.NoError(t, err)
	f.publish()
	require.Zero(t, f.pending())
	f.requireBoards(false)
}

// TestOnRedisCluster runs everything on a server in cluster mode, which refuses scripts and transactions over keys of
// several slots, and undeclared keys of other slots.
func TestOnRedisCluster(t *testing.T) {
	t.Parallel()
	f := fixtureOn(t, testCluster(t))
	f.users(3)
	for n := 1; n <= 3; n++ {
		f.change(userID(n), int64(60*n), spread("c++")...)
	}
	f.cycle()
	f.setPrivacy(userID(1), "off")
	f.delete(userID(2))
	f.cycle()
	require.Zero(t, f.pending())
	f.requireBoards(false)
	reader := leaderboard.NewReader(f.pool, f.rdb, leaderboard.ReaderConfig{
		Log: testenv.Logger(t), MissingFunc: func(b leaderboard.Board) { t.Errorf("%v is not whole", b) },
	})
	for _, q := range []leaderboard.Query{{Limit: 1}, {Around: userID(3)}} {
		p, err := reader.Page(t.Context(), noon, boardOf(calendar.PeriodWeek, ""), q)
		require.NoError(t, err)
		require.Len(t, p.Entries, 1)
	}
}
