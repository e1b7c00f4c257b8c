package leaderboard

import (
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/testenv"
)

// TestRemovalsDuringABuild: the builder has read the page with the user when the user leaves. The board must come up without
// the user, although nobody has published into it yet, and must still refuse what is older than the removal.
func TestRemovalsDuringABuild(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodWeek, "")
	want := f.seed(b, 5)
	f.exec(`UPDATE users SET version = 3`)
	var building Outcome
	w := f.newBuild(b)
	require.NoError(t, w.begin(t.Context()))
	_, err := w.fill(t.Context())
	require.NoError(t, err)
	for _, row := range []Row{
		{User: userID(1), Version: 4},
		{User: userID(2), Version: 2}, // the builder has read a newer state, in which the user is back
		{User: userID(3), Version: 3}, // at one version there is one truth; removing is the safe side
		{User: userID(4), Version: 9},
		{User: userID(4), Version: 8}, // late, and must not take the newer note's place
		{User: userID(9), Version: 4}, // not read by the builder
	} {
		building = f.publish(b, w.generation, row)
		require.Equal(t, Outcome{Verdict: Building, Noted: true}, building)
	}
	building = f.publish(b, w.generation, Row{User: userID(5), Version: 9, Seconds: 50, Facts: facts})
	require.Equal(t, Building, building.Verdict)
	require.Nil(t, f.scores(b))
	require.NoError(t, w.swap(t.Context()))

	for _, n := range []int{1, 3, 4} {
		delete(want, userID(n))
	}
	require.Equal(t, want, f.scores(b))
	require.Len(t, f.keys("*"), 2, "neither token nor notes remain")
	for n, version := range map[int]int64{1: 3, 3: 2, 4: 8, 9: 3} {
		late := f.publish(b, w.generation, Row{User: userID(n), Version: version, Seconds: 60, Facts: facts})
		require.Equal(t, []int{0}, late.Refused, "user %d", n)
	}
	back := f.publish(b, w.generation, Row{User: userID(4), Version: 9, Seconds: 60, Facts: facts})
	require.Empty(t, back.Refused)
}

// TestNotesBelongToTheirBuild: notes that were lost, or are another build's, must cost the build, not the removal.
func TestNotesBelongToTheirBuild(t *testing.T) {
	t.Parallel()
	b := boardOf(calendar.PeriodDay, "")
	k := b.keys()
	removal := Row{User: userID(1), Version: 4}
	for name, disturb := range map[string]func(f *fixture) error{
		"lost":      func(f *fixture) error { return f.rdb.Del(f.ctx, k.notes).Err() },
		"another's": func(f *fixture) error { return f.rdb.HSet(f.ctx, k.notes, "gen", "another").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.seed(b, 1)
			w := f.newBuild(b)
			require.NoError(t, w.begin(t.Context()))
			_, err := w.fill(t.Context())
			require.NoError(t, err)
			require.True(t, f.publish(b, "", removal).Noted)
			require.NoError(t, disturb(f))
			require.Equal(t, Outcome{Verdict: Building}, f.publish(b, "", removal), "there is nowhere to note it")
			require.ErrorIs(t, w.swap(t.Context()), ErrBuildLost)
			require.Nil(t, f.scores(b))
			w.discard(t.Context())
			f.build(b) // starts with no notes: what it reads is newer
			require.Len(t, f.scores(b), 1)
		})
	}
}

// TestNotesAreBounded, since one script moves them all: who does not fit waits for the build.
func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "")
	w := f.newBuild(b)
	require.NoError(t, w.begin(t.Context()))
	noted := 0
	for n := 1; f.publish(b, "", Row{User: userID(n), Version: 1}).Noted; n++ {
		noted++
		require.LessOrEqual(t, noted, 2000)
	}
	require.Equal(t, 2000, noted)
	require.NoError(t, w.swap(t.Context()))
	require.Empty(t, f.scores(b))
}

// TestAFullRedisStillForgets: there is no memory for a tombstone, so the whole board goes, and with it who was to be removed.
func TestAFullRedisStillForgets(t *testing.T) {
	t.Parallel()
	f := fixtureOn(t, openRedis(t, testenv.OwnRedis(t).URL()))
	with, without := boardOf(calendar.PeriodWeek, ""), boardOf(calendar.PeriodWeek, "c")
	f.seed(with, 3)
	generation, other := f.build(with), f.build(without)
	full := func(limit string) {
		require.NoError(t, f.rdb.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
		require.NoError(t, f.rdb.ConfigSet(t.Context(), "maxmemory", limit).Err())
	}
	require.NoError(t, publishScript.Load(t.Context(), f.rdb).Err())
	now, err := f.boards.Time(t.Context())
	require.NoError(t, err)
	full("1")
	growth := Row{User: userID(1), Version: 9, Seconds: 9, Facts: facts}
	outcomes, err := f.boards.Publish(t.Context(), []Publication{
		{Board: with, Generation: generation, ReadAt: now, Rows: []Row{growth, {User: userID(2), Version: 9}}},
		{Board: without, Generation: other, ReadAt: now, Rows: []Row{growth}},
	})
	require.NoError(t, err)
	require.Equal(t, Outcome{Verdict: Absent}, outcomes[0])
	require.Equal(t, Broken, outcomes[1].Verdict)
	require.True(t, redis.HasErrorPrefix(outcomes[1].Err, "OOM"))
	require.Nil(t, f.scores(with), "readers turn to Postgres")
	require.Equal(t, map[uuid.UUID]int64{}, f.scores(without), "a place that is only out of date is no reason")

	// A board that is being built takes notes, and no rows.
	full("0")
	w := f.newBuild(with)
	require.NoError(t, w.begin(t.Context()))
	full("1")
	_, err = w.fill(t.Context())
	require.True(t, redis.HasErrorPrefix(err, "OOM"))
	o := f.publish(with, "", Row{User: userID(2), Version: 9})
	require.Equal(t, Outcome{Verdict: Building, Noted: true}, o)
	full("0")
}
