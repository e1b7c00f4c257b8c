package leaderboard

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// stopDB calls stop before each query, with its number.
type stopDB struct {
	dbsqlc.DBTX
	stop func(query int)
	n    int
}

func (s *stopDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	s.n++
	s.stop(s.n)
	return s.DBTX.Query(ctx, sql, args...)
}

func (f *fixture) stoppingBuilder(stop func(query int)) *Builder {
	return NewBuilder(&stopDB{DBTX: f.pool, stop: stop}, f.rdb, testLangs, testenv.Logger(f.t))
}

// queries is how many pages a stopping builder has read.
func queries(b *Builder) int { return b.db.(*stopDB).n }

// newBuild is a build whose steps are the test's to take.
func (f *fixture) newBuild(b Board) *build {
	w := &build{Builder: f.builder, board: b, keys: b.keys(), generation: newGeneration()}
	w.aside = b.aside(w.generation)
	return w
}

// seed gives n users seconds on a board: n, n-1 ... 1.
func (f *fixture) seed(b Board, n int) map[uuid.UUID]int64 {
	f.t.Helper()
	f.exec(`INSERT INTO users (id, handle, token_hash)
		SELECT lpad(to_hex(i), 32, '0')::uuid, 'seed' || i, '' FROM generate_series(1, $1::int) i`, n)
	f.exec(`INSERT INTO totals SELECT lpad(to_hex(i), 32, '0')::uuid, $2, $3, $4, i FROM generate_series(1, $1::int) i`,
		n, b.Period, b.StartsOn, b.Lang)
	scores := make(map[uuid.UUID]int64, n)
	for i := 1; i <= n; i++ {
		scores[userID(i)] = int64(i)
	}
	return scores
}

func TestBuildTakesWhoIsShownAndHasSeconds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodWeek, "c++")
	want := f.seed(b, 2*chunkRows+7)
	f.exec(`UPDATE users SET privacy = 'off' WHERE id = $1`, userID(5))
	f.exec(`UPDATE users SET privacy = 'summary' WHERE id = $1`, userID(6))
	delete(want, userID(5))
	f.total(userID(9), b, 0)
	delete(want, userID(9))
	for _, lang := range []string{"c", "c#", ""} {
		f.total(userID(10), boardOf(calendar.PeriodWeek, lang), 77)
	}

	built, err := f.builder.Build(t.Context(), b)
	require.NoError(t, err)
	require.EqualValues(t, len(want), built.Rows)
	require.Equal(t, want, f.scores(b))
	k := b.keys()
	require.ElementsMatch(t, []string{k.scores, k.members}, f.keys("*"), "no token, no aside keys, no other board")
	ttl := func(key string) time.Duration { return f.rdb.PTTL(t.Context(), key).Val() }
	require.InDelta(t, minLifetime, ttl(k.scores), float64(10*time.Minute), "it is not kept")
	require.Equal(t, f.rdb.PExpireTime(t.Context(), k.scores).Val(), f.rdb.PExpireTime(t.Context(), k.members).Val())

	now, err := f.boards.Time(t.Context())
	require.NoError(t, err)
	kept := Board{Span: calendar.SpanOf(calendar.PeriodDay, calendar.DayOf(now.UTC()))}
	f.build(kept)
	require.InDelta(t, time.Unix(kept.expires(), 0).UnixMilli(), f.rdb.PExpireTime(t.Context(), kept.keys().scores).Val().Milliseconds(), 5)

	all := boardOf(calendar.PeriodAllTime, "")
	f.build(all)
	require.Negative(t, ttl(all.keys().scores), "all time never expires")
	require.Negative(t, ttl(all.keys().members))
}

// TestBoardsOfSimilarLanguagesAreThree: their keys must not collide, nor what is published into them.
func TestBoardsOfSimilarLanguagesAreThree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i, lang := range []string{"c", "c#", "c++"} {
		b := boardOf(calendar.PeriodWeek, lang)
		generation := f.build(b)
		f.publish(b, generation, Row{User: userID(i), Version: 1, Seconds: int64(10 + i), Facts: facts})
	}
	for i, lang := range []string{"c", "c#", "c++"} {
		require.Equal(t, map[uuid.UUID]int64{userID(i): int64(10 + i)}, f.scores(boardOf(calendar.PeriodWeek, lang)))
	}
}

func TestTwoBuildersExcludeEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "")
	want := f.seed(b, chunkRows+1)
	first := f.stoppingBuilder(func(query int) {
		if query > 1 {
			return
		}
		_, err := f.builder.Build(t.Context(), b)
		require.ErrorIs(t, err, ErrBuilding)
		require.Nil(t, f.scores(b), "not whole yet")
	})
	_, err := first.Build(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, want, f.scores(b))
	_, err = f.builder.Build(t.Context(), b)
	require.NoError(t, err, "the token must be gone")
}

// TestAStaleBuilderWritesNothing: it was stopped for so long that its token expired and another one built the board.
func TestAStaleBuilderWritesNothing(t *testing.T) {
	t.Parallel()
	for name, secondBuilds := range map[string]bool{"after another build": true, "with nobody else": false} {
		for stopAt := 1; stopAt <= 3; stopAt++ {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				b := boardOf(calendar.PeriodDay, "")
				want := f.seed(b, 2*chunkRows+1) // three pages
				stale := f.stoppingBuilder(func(query int) {
					if query != stopAt {
						return
					}
					require.NoError(t, f.rdb.Del(t.Context(), b.keys().building).Err()) // expired
					f.total(userID(1), b, 4711)                                         // what the stale builder may not undo
					if secondBuilds {
						f.build(b)
					}
				})
				_, err := stale.Build(t.Context(), b)
				require.ErrorIs(t, err, ErrBuildLost)
				require.Equal(t, stopAt, queries(stale), "it must notice with the first chunk, not only when it swaps")
				require.Empty(t, f.keys("*:build:*"))
				if !secondBuilds {
					require.Nil(t, f.scores(b))
					return
				}
				want[userID(1)] = 4711
				require.Equal(t, want, f.scores(b))
			})
		}
	}
}

// TestABuildThatLosesAnAsideKeyIsGivenUp: what came before the loss would be missing from the board.
func TestABuildThatLosesAnAsideKeyIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{":build:*:z", ":build:*:m"} {
		for stopAt := 2; stopAt <= 3; stopAt++ {
			f := newFixture(t)
			b := boardOf(calendar.PeriodDay, "")
			f.seed(b, 2*chunkRows) // the third page is empty: after it comes the swap
			builder := f.stoppingBuilder(func(query int) {
				if query == stopAt {
					aside := f.keys("*" + suffix)
					require.Len(t, aside, 1)
					require.NoError(t, f.rdb.Del(t.Context(), aside...).Err())
				}
			})
			_, err := builder.Build(t.Context(), b)
			require.ErrorIs(t, err, ErrBuildLost)
			require.Equal(t, stopAt, queries(builder))
			require.Empty(t, f.keys("*"), "nothing is left behind, and the next builder need not wait")
		}
	}
}

// TestSwapNeedsTheTokenAndAnEmptyPlace, each alone: they are two barriers against a swap over another one's board.
func TestSwapNeedsTheTokenAndAnEmptyPlace(t *testing.T) {
	t.Parallel()
	b := boardOf(calendar.PeriodDay, "")
	for name, disturb := range map[string]func(f *fixture) error{
		"token": func(f *fixture) error { return f.rdb.Set(f.ctx, b.keys().building, "another", 0).Err() },
		"sorted set": func(f *fixture) error {
			return f.rdb.ZAdd(f.ctx, b.keys().scores, redis.Z{Score: 1, Member: "x"}).Err()
		},
		"hash": func(f *fixture) error { return f.rdb.HSet(f.ctx, b.keys().members, "x", "y").Err() },
	} {
		f := newFixture(t)
		w := f.newBuild(b)
		require.NoError(t, w.begin(t.Context()))
		require.NoError(t, disturb(f))
		require.ErrorIs(t, w.swap(t.Context()), ErrBuildLost, name)
		require.Nil(t, f.scores(b))
		require.Empty(t, f.keys("*:build:*"))
	}
}

// TestAKilledBuilderLeavesNothingForLong: everything it holds expires by itself.
func TestAKilledBuilderLeavesNothingForLong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodAllTime, "")
	f.seed(b, 2*chunkRows+1)
	_, err := f.stoppingBuilder(func(query int) {
		if query != 3 {
			return
		}
		require.Len(t, f.keys("*"), 4)
		for _, key := range f.keys("*") {
			require.Positive(t, f.rdb.PTTL(t.Context(), key).Val(), key)
		}
	}).Build(t.Context(), b)
	require.NoError(t, err)
}

// TestAFailedBuildCleansUp also when it failed because its context ended.
func TestAFailedBuildCleansUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "")
	f.seed(b, chunkRows+1)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := f.stoppingBuilder(func(query int) {
		if query == 2 {
			cancel()
		}
	}).Build(ctx, b)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, f.keys("*"))
}

// TestBuildScriptsMayBeSentTwice: a client repeats a command whose answer it did not get.
func TestBuildScriptsMayBeSentTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "")
	want := f.seed(b, 3)
	w := f.newBuild(b)
	rows, err := view{db: f.pool, board: b, langs: testLangs}.below(t.Context(), top, 10)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, w.begin(t.Context()))
	}
	for range 2 {
		require.NoError(t, w.write(t.Context(), rows))
	}
	for range 2 {
		require.NoError(t, w.swap(t.Context()))
		require.Equal(t, want, f.scores(b))
	}
}

func TestEnsureKeptBuildsWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.user(1, "full")
	week := calendar.SpanOf(calendar.PeriodWeek, today)
	f.total(id, Board{Span: week}, 90)
	f.total(id, Board{Span: week, Lang: "c++"}, 60)
	f.total(id, boardOf(calendar.PeriodAllTime, "c++"), 60)
	f.total(id, Board{Span: week, Lang: "klingon"}, 30) // not listed: no board
	old := Board{Span: calendar.SpanOf(calendar.PeriodDay, today-9), Lang: "go"}
	f.total(id, old, 30) // not kept

	done, err := f.builder.EnsureKept(t.Context(), &noon)
	require.NoError(t, err)
	require.Equal(t, Ensured{Boards: 12, Built: 12, Rows: 3}, done)
	require.Len(t, f.keys("*"), 24)
	require.Equal(t, map[uuid.UUID]int64{id: 60}, f.scores(Board{Span: week, Lang: "c++"}))

	done, err = f.builder.EnsureKept(t.Context(), &noon)
	require.NoError(t, err)
	require.Equal(t, Ensured{Boards: 12}, done)

	// One key of one board evicted, one board broken, one being built by another process.
	lost, broken, busy := Board{Span: week}, Board{Span: week, Lang: "c++"}, boardOf(calendar.PeriodDay, "")
	require.NoError(t, f.rdb.Del(t.Context(), lost.keys().scores).Err())
	require.NoError(t, f.rdb.Set(t.Context(), broken.keys().members, "x", 0).Err())
	require.NoError(t, f.rdb.Del(t.Context(), busy.keys().scores).Err())
	require.NoError(t, f.rdb.Set(t.Context(), busy.keys().building, "somebody", 0).Err())
	done, err = f.builder.EnsureKept(t.Context(), &noon)
	require.NoError(t, err)
	require.Equal(t, Ensured{Boards: 12, Built: 2, Busy: 1, Rows: 2}, done)
	require.Equal(t, map[uuid.UUID]int64{id: 90}, f.scores(lost))
	require.Equal(t, map[uuid.UUID]int64{id: 60}, f.scores(broken))
}
