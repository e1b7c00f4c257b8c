package leaderboard

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
)

func TestKnownRanks(t *testing.T) {
	t.Parallel()
	var k known
	b, one, two := boardOf(calendar.PeriodDay, ""), stand{"a", 1}, stand{"a", 2}
	users := []uuid.UUID{userID(1), userID(2)}
	require.Nil(t, k.get(b, one, users))
	k.put(b, one, users, map[uuid.UUID]int64{userID(1): 7})
	require.Equal(t, map[uuid.UUID]int64{userID(1): 7, userID(2): 0}, k.get(b, one, users), "who has no place is known too")
	require.Nil(t, k.get(b, two, users), "another publication")
	require.Nil(t, k.get(b, stand{"b", 1}, users), "another generation")
	require.Nil(t, k.get(boardOf(calendar.PeriodDay, "go"), one, users))
	require.Nil(t, k.get(b, one, append(users, userID(3))))
	k.put(b, one, []uuid.UUID{userID(3)}, map[uuid.UUID]int64{userID(3): 1})
	require.Len(t, k.get(b, one, append(users, userID(3))), 3, "pages gather")
	k.put(b, two, users, nil)
	require.Nil(t, k.get(b, two, []uuid.UUID{userID(3)}), "not from one stand to the next")

	for n := range maxKnownRanks {
		k.put(b, two, []uuid.UUID{userID(10 + n)}, nil)
	}
	require.LessOrEqual(t, len(k.boards[b].ranks), maxKnownRanks)
	for n := range 2 * maxKnownBoards {
		k.put(Board{Span: calendar.Span{Period: calendar.PeriodDay, StartsOn: today - calendar.Day(n)}}, one, users, nil)
	}
	require.LessOrEqual(t, len(k.boards), maxKnownBoards)
}

// A rank that is known ends with the state of the board that it was read from, be it a publication in the same millisecond.
func TestDeltasFollowTheBoardBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := boardOf(calendar.PeriodDay, "")
	before, _ := now.Previous()
	for n := 1; n <= 3; n++ {
		id := f.user(n, "full")
		f.total(id, now, int64(100*n))
		f.total(id, before, int64(100*n))
	}
	f.build(now)
	generation := f.build(before)
	deltas := func() (list []int64) {
		for _, e := range f.page(now, Query{Limit: 3}).Entries {
			list = append(list, *e.Delta)
		}
		return list
	}
	require.Equal(t, []int64{0, 0, 0}, deltas())
	require.NotEmpty(t, f.reader.known.boards[before].ranks)
	require.Equal(t, []int64{0, 0, 0}, deltas(), "known")
	for i, seconds := range []int64{500, 250, 50, 500, 50} {
		row := Row{User: userID(1), Version: int64(i) + 2, Seconds: seconds, Facts: Facts{Handle: "u", Zone: "UTC"}}
		require.Equal(t, Outcome{Verdict: Taken, Refused: []int{}}, f.publish(before, generation, row))
		require.Equal(t, map[int64][]int64{500: {1, 1, -2}, 250: {0, 1, -1}, 50: {0, 0, 0}}[seconds], deltas())
	}
}

// Every publication is a state of its own, however many there are in a millisecond.
func TestEachPublicationIsAStand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "")
	f.total(f.user(1, "full"), b, 60)
	generation := f.build(b)
	at := func() int64 {
		n, err := f.rdb.HGet(f.ctx, b.keys().members, "at").Int64()
		require.NoError(t, err)
		return n
	}
	readAt, err := f.boards.Time(f.ctx)
	require.NoError(t, err)
	const many = 3000
	pubs := make([]Publication, many)
	for i := range pubs {
		pubs[i] = Publication{Board: b, Generation: generation, ReadAt: readAt, Rows: []Row{{User: userID(1), Version: 2, Seconds: 60}}}
	}
	before := at()
	_, err = f.boards.Publish(f.ctx, pubs)
	require.NoError(t, err)
	require.GreaterOrEqual(t, at()-before, int64(many))
}

// The span before the previous one is not kept, but its board is right for as long as it lives: the pages of the previous span
// compare with it, and cost what those of the present do. Without it nobody is asked to build it.
func TestDeltasOfThePreviousSpan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	previous, _ := boardOf(calendar.PeriodDay, "").Previous()
	before, _ := previous.Previous()
	for n := 1; n <= 2; n++ {
		id := f.user(n, "full")
		f.total(id, previous, int64(100*n))
		f.total(id, before, int64(100*n))
	}
	f.build(previous)
	delta := func() int64 { return *f.page(previous, Query{Limit: 2}).Entries[0].Delta }
	require.EqualValues(t, 0, delta())
	f.build(before)
	f.total(userID(1), before, 300) // not published: so this is Redis's answer
	require.EqualValues(t, 0, delta())
	require.NoError(t, f.rdb.Del(f.ctx, before.keys().scores).Err())
	require.EqualValues(t, 1, delta())
	require.Empty(t, f.missing)
}
