package leaderboard

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/testenv"
)

var facts = Facts{Handle: "ann", TopLang: "go", Zone: "UTC"}

// without is publish.lua with one of its guards taken out.
func without(t *testing.T, guard string) *redis.Script {
	require.Equal(t, 1, strings.Count(publishLua, guard), "the guard is not in the script: %s", guard)
	return redis.NewScript(markLua + strings.Replace(publishLua, guard, "", 1))
}

const (
	guardMark = `if not gen then
  -- What remains of it must not come back whole, should a server that made it take over again.
  redis.call('UNLINK', KEYS[1], KEYS[2])
  return redis.call('EXISTS', KEYS[3]) == 1 and note_removals(redis.call('GET', KEYS[3])) or { 1 }
end`
	guardGeneration = `if gen ~= ARGV[1] then return { 3, gen } end`
	guardAge        = `if now - tonumber(ARGV[2]) > READ_TTL then return { 4 } end`
	guardVersion    = `held and tonumber(string.match(held, '^%d+') or -1) > tonumber(ARGV[i + 1])`
)

// TestFence publishes something that must not get through, and shows that it would without the guard.
func TestFence(t *testing.T) {
	t.Parallel()
	user, other := userID(1), userID(2)
	b := boardOf(calendar.PeriodWeek, "c++")
	place := func(version, seconds int64) Row {
		return Row{User: user, Version: version, Seconds: seconds, Facts: facts}
	}
	require.Contains(t, publishLua, guardVersion)
	noVersions := strings.Replace(publishLua, guardVersion, "false", 1)
	for _, c := range []struct {
		name  string
		held  []Row         // published before
		late  Row           // what arrives late
		age   time.Duration // of its read
		build bool          // the board was built anew since its generation was learned
		want  Outcome
		scr   *redis.Script // without the guard
	}{
		{
			name: "older growth", held: []Row{place(3, 100)}, late: place(2, 200),
			want: Outcome{Refused: []int{0}}, scr: redis.NewScript(markLua + noVersions),
		}, {
			name: "older decrease", held: []Row{place(3, 100)}, late: place(2, 50),
			want: Outcome{Refused: []int{0}}, scr: redis.NewScript(markLua + noVersions),
		}, {
			name: "older removal", held: []Row{place(3, 100)}, late: place(2, 0),
			want: Outcome{Refused: []int{0}}, scr: redis.NewScript(markLua + noVersions),
		}, {
			name: "older than a removal", held: []Row{place(2, 100), place(3, 0)}, late: place(2, 100),
			want: Outcome{Refused: []int{0}}, scr: redis.NewScript(markLua + noVersions),
		}, {
			name: "older than a removal of nothing", held: []Row{place(3, 0)}, late: place(2, 100),
			want: Outcome{Refused: []int{0}}, scr: redis.NewScript(markLua + noVersions),
		}, {
			name: "of an earlier generation", held: []Row{place(2, 100), place(3, 0)}, build: true, late: place(2, 100),
			want: Outcome{Verdict: OtherBoard}, scr: without(t, guardGeneration),
		}, {
			name: "read over an hour ago", held: []Row{place(3, 100)}, late: place(4, 200), age: time.Hour + 2*time.Second,
			want: Outcome{Verdict: ReadTooLong}, scr: without(t, guardAge),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			generation := f.build(b)
			for _, row := range append(c.held, Row{User: other, Version: 1, Seconds: 1, Facts: facts}) {
				require.Equal(t, Outcome{Refused: []int{}}, f.publish(b, generation, row))
			}
			if c.build {
				c.want.Generation = f.build(b) // from totals, which have nobody
			}
			before := f.scores(b)
			now, err := f.boards.Time(t.Context())
			require.NoError(t, err)
			late := Publication{Board: b, Generation: generation, ReadAt: now.Add(-c.age), Rows: []Row{c.late}}
			got, err := f.boards.Publish(t.Context(), []Publication{late})
			require.NoError(t, err)
			if c.want.Verdict == Taken {
				require.Equal(t, c.want, got[0])
			} else {
				require.Equal(t, c.want.Verdict, got[0].Verdict)
				require.Equal(t, c.want.Generation, got[0].Generation)
			}
			require.Equal(t, before, f.scores(b))

			call := late.call()
			require.NoError(t, c.scr.Run(t.Context(), f.rdb, call.keys, call.args...).Err())
			require.NotEqual(t, before, f.scores(b), "the guard makes no difference: this test shows nothing")
		})
	}
}

func TestNewerAndEqualVersionsAreTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "")
	generation := f.build(b)
	id := userID(7)
	for _, c := range []struct{ version, seconds int64 }{{1, 10}, {1, 10}, {2, 5}, {3, 0}, {3, 0}, {4, 1 << 40}} {
		o := f.publish(b, generation, Row{User: id, Version: c.version, Seconds: c.seconds, Facts: facts})
		require.Equal(t, Outcome{Refused: []int{}}, o)
		want := map[uuid.UUID]int64{}
		if c.seconds > 0 {
			want[id] = c.seconds
		}
		require.Equal(t, want, f.scores(b))
	}
}

// TestPublishRefusesSingleRows: a refused row must not cost its neighbours.
func TestPublishRefusesSingleRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "go")
	generation := f.build(b)
	f.publish(b, generation, Row{User: userID(2), Version: 9, Seconds: 9, Facts: facts})
	now, err := f.boards.Time(t.Context())
	require.NoError(t, err)
	rows := make([]Row, 4)
	for i := range rows {
		rows[i] = Row{User: userID(i), Version: 5, Seconds: 5, Facts: facts}
	}
	o, err := f.boards.Publish(t.Context(), []Publication{{Board: b, Generation: generation, ReadAt: now, Rows: rows}})
	require.NoError(t, err)
	require.Equal(t, []Outcome{{Refused: []int{2}}}, o)
	require.Equal(t, map[uuid.UUID]int64{userID(0): 5, userID(1): 5, userID(2): 9, userID(3): 5}, f.scores(b))
}

// TestNothingIsWrittenWithoutAMark: what is there is not whole, and must not look whole after a publication.
func TestNothingIsWrittenWithoutAMark(t *testing.T) {
	t.Parallel()
	b := boardOf(calendar.PeriodMonth, "")
	k := b.keys()
	for _, lost := range []string{k.scores, k.members, "both", "restart"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id := f.user(1, "full")
			f.total(id, b, 60)
			generation := f.build(b)
			require.Len(t, f.scores(b), 1)
			switch lost {
			case "both":
				require.NoError(t, f.rdb.Del(t.Context(), k.scores, k.members).Err())
			case "restart": // as seen by a server that came up with the board but is another run
				require.NoError(t, f.rdb.HSet(t.Context(), k.members, "run", "0123").Err())
			default:
				require.NoError(t, f.rdb.Del(t.Context(), lost).Err())
			}
			require.Nil(t, f.scores(b))
			row := Row{User: id, Version: 2, Seconds: 70, Facts: facts}
			call := (&Publication{Board: b, Generation: generation, ReadAt: noon, Rows: []Row{row}}).call()
			if lost == "both" {
				// The generation is a second barrier: without the mark there is none. With neither, part of a board is made.
				unguarded := strings.NewReplacer(guardMark, "", guardGeneration, "", guardAge, "").Replace(publishLua)
				require.NoError(t, redis.NewScript(markLua+unguarded).Run(t.Context(), f.rdb, call.keys, call.args...).Err())
				require.Len(t, f.keys("*"), 2)
			}
			require.Equal(t, Outcome{Verdict: Absent}, f.publish(b, generation, row))
			require.Empty(t, f.keys("*"), "nothing may remain that a later event could make whole")

			require.NoError(t, f.rdb.Set(t.Context(), k.building, "somebody", 0).Err())
			require.Equal(t, Outcome{Verdict: Building}, f.publish(b, generation, row))
			require.Equal(t, []string{k.building}, f.keys("*"))
		})
	}
}

func TestTombstonesArePrunedAfterADay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodAllTime, "")
	k := b.keys()
	generation := f.build(b)
	now, err := f.boards.Time(t.Context())
	require.NoError(t, err)
	tombstone := func(n int, age time.Duration) {
		removed := float64(now.Add(-age).Unix())
		require.NoError(t, f.rdb.ZAdd(t.Context(), k.scores, redis.Z{Score: -removed, Member: userID(n).String()}).Err())
		require.NoError(t, f.rdb.HSet(t.Context(), k.members, userID(n).String(), "5\x00").Err())
	}
	const day = 24 * time.Hour
	for n := range 150 {
		tombstone(1000+n, day+time.Minute)
	}
	tombstone(1, day-time.Minute)
	tombstone(2, 0)
	publish := func(n int, version int64) Outcome {
		return f.publish(b, generation, Row{User: userID(n), Version: version, Seconds: 1, Facts: facts})
	}
	require.Empty(t, publish(3, 1).Refused)
	require.EqualValues(t, 1+1+52, f.rdb.ZCard(t.Context(), k.scores).Val(), "one call prunes a bounded number")
	// One that is about to be pruned comes back in the same call: it must stay.
	require.Empty(t, publish(1149, 5).Refused)
	require.Equal(t, map[uuid.UUID]int64{userID(3): 1, userID(1149): 1}, f.scores(b))
	require.EqualValues(t, 1+2+2, f.rdb.ZCard(t.Context(), k.scores).Val())
	require.Equal(t, []int{0}, publish(1, 4).Refused, "younger than a day, so it still fences")
	require.Equal(t, []int{0}, publish(2, 4).Refused)
	require.Empty(t, publish(1000, 4).Refused, "forgotten")
}

// TestScriptsAreLoadedAgain: EVALSHA in a pipeline has no fallback of its own.
func TestScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	f := fixtureOn(t, openRedis(t, testenv.OwnRedis(t).URL()))
	b := boardOf(calendar.PeriodDay, "")
	generation := f.build(b)
	for n := range 3 {
		require.NoError(t, f.rdb.ScriptFlush(t.Context()).Err())
		o := f.publish(b, generation, Row{User: userID(n), Version: 1, Seconds: 1, Facts: facts})
		require.Equal(t, Outcome{Refused: []int{}}, o)
	}
	require.NoError(t, f.rdb.ScriptFlush(t.Context()).Err())
	require.Len(t, f.scores(b), 3)
}

// TestABrokenKeyCostsOnlyItsBoard: one board's script fails, its neighbours in the pipeline are published.
func TestABrokenKeyCostsOnlyItsBoard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good, bad := boardOf(calendar.PeriodDay, "c"), boardOf(calendar.PeriodDay, "c#")
	generation := f.build(good)
	require.NoError(t, f.rdb.Set(t.Context(), bad.keys().members, "not a hash", 0).Err())
	now, err := f.boards.Time(t.Context())
	require.NoError(t, err)
	row := Row{User: userID(1), Version: 1, Seconds: 1, Facts: facts}
	o, err := f.boards.Publish(t.Context(), []Publication{
		{Board: bad, ReadAt: now, Rows: []Row{row}},
		{Board: good, Generation: generation, ReadAt: now, Rows: []Row{row}},
	})
	require.NoError(t, err)
	require.Equal(t, Broken, o[0].Verdict)
	require.ErrorContains(t, o[0].Err, "WRONGTYPE")
	require.Equal(t, Outcome{Refused: []int{}}, o[1])
	f.build(bad) // which replaces whatever is there
	require.Empty(t, f.scores(bad))
	require.NotNil(t, f.scores(bad))
}
