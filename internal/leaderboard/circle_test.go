package leaderboard

import (
	"cmp"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/calendar"
)

// modelPlace is a user in the plain model of a circle.
type modelPlace struct {
	user          uuid.UUID
	seconds, rank int64
}

// model is the board of users by its definition: who has seconds and is shown, most first, equal ones by id, descending; a rank
// is one more than the number of users with more seconds.
func model(users []uuid.UUID, seconds map[uuid.UUID]int64, off map[uuid.UUID]bool) (list []modelPlace) {
	for _, u := range users {
		if seconds[u] > 0 && !off[u] {
			list = append(list, modelPlace{user: u, seconds: seconds[u]})
		}
	}
	slices.SortFunc(list, func(a, b modelPlace) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(b.user.String(), a.user.String()))
	})
	for i := range list {
		above := slices.IndexFunc(list, func(o modelPlace) bool { return o.seconds == list[i].seconds })
		list[i].rank = int64(above) + 1
	}
	return list
}

func TestCircleIsItsDefinition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	circles := NewCircles(f.pool, testLangs)
	b := boardOf(calendar.PeriodWeek, "")
	before, _ := b.Previous()
	const all = 12
	for n := 1; n <= all; n++ {
		f.user(n, "full")
	}
	f.total(userID(all), boardOf(calendar.PeriodWeek, "go"), 7)
	f.total(userID(all), boardOf(calendar.PeriodWeek, "zzz"), 9)
	rapid.Check(t, func(t *rapid.T) {
		now, then, off := map[uuid.UUID]int64{}, map[uuid.UUID]int64{}, map[uuid.UUID]bool{}
		var users []uuid.UUID
		for n := 1; n <= all; n++ {
			id := userID(n)
			now[id], then[id] = rapid.Int64Range(0, 4).Draw(t, "now"), rapid.Int64Range(0, 4).Draw(t, "then")
			f.total(id, b, now[id])
			f.total(id, before, then[id])
			mode := "full"
			if off[id] = rapid.IntRange(0, 4).Draw(t, "off") == 0; off[id] {
				mode = "off"
			}
			f.exec(`UPDATE users SET privacy = $2 WHERE id = $1`, id, mode)
			if rapid.IntRange(0, 3).Draw(t, "member") > 0 {
				users = append(users, id)
			}
		}
		users = append(users, userID(999)) // who does not exist has no place
		f.checkCircle(t, circles, b, users, model(users, now, off), model(users, then, off), rapid.IntRange(1, 5).Draw(t, "limit"))
	})
}

// checkCircle compares all pages with the model, and the surroundings of each user.
func (f *fixture) checkCircle(t *rapid.T, circles *Circles, b Board, users []uuid.UUID, want, then []modelPlace, limit int) {
	check := func(e Entry, m modelPlace) {
		require.Equal(t, m, modelPlace{e.UserID, e.Seconds, e.Rank})
		i := slices.IndexFunc(then, func(o modelPlace) bool { return o.user == e.UserID })
		require.Equal(t, i >= 0, e.Delta != nil)
		if i >= 0 {
			require.Equal(t, then[i].rank-m.rank, *e.Delta)
		}
	}
	me := users[0]
	mine := slices.IndexFunc(want, func(m modelPlace) bool { return m.user == me })
	seen := 0
	for cursor := ""; ; {
		p, err := circles.Page(f.ctx, noon, b, users, Query{Limit: limit, Cursor: cursor, Me: me})
		require.NoError(t, err)
		for _, e := range p.Entries {
			check(e, want[seen])
			seen++
		}
		require.Equal(t, mine >= 0, p.Me != nil)
		if mine >= 0 {
			check(*p.Me, want[mine])
		}
		if p.NextCursor == nil {
			break
		}
		require.Len(t, p.Entries, limit)
		cursor = *p.NextCursor
	}
	require.Equal(t, len(want), seen)
	for _, u := range users {
		p, err := circles.Page(f.ctx, noon, b, users, Query{Limit: limit, Around: u})
		require.NoError(t, err)
		at := slices.IndexFunc(want, func(m modelPlace) bool { return m.user == u })
		if at < 0 {
			require.Empty(t, p.Entries)
			require.Nil(t, p.Me)
			continue
		}
		start := max(0, min(at-limit/2, len(want)-limit))
		require.Len(t, p.Entries, min(limit, len(want)))
		for i, e := range p.Entries {
			check(e, want[start+i])
		}
		require.Equal(t, start+limit < len(want), p.NextCursor != nil)
	}
}

func TestCircleFacts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	circles := NewCircles(f.pool, testLangs)
	id := f.user(1, "summary")
	f.exec(`UPDATE users SET avatar_url = 'https://x/a.png', streak_first_on = '2026-06-16', streak_last_on = '2026-06-17' WHERE id = $1`, id)
	for _, p := range []calendar.Period{calendar.PeriodDay, calendar.PeriodAllTime} {
		f.total(id, boardOf(p, ""), 100)
		f.total(id, boardOf(p, "go"), 40)
		f.total(id, boardOf(p, "unlisted"), 60)
	}
	for _, b := range []Board{boardOf(calendar.PeriodDay, ""), boardOf(calendar.PeriodAllTime, "go")} {
		p, err := circles.Page(f.ctx, noon, b, []uuid.UUID{id}, Query{Limit: 10, Me: id})
		require.NoError(t, err)
		require.Len(t, p.Entries, 1)
		e := p.Entries[0]
		require.Equal(t, "go", *e.TopLang, "names that are not listed are free text")
		require.Equal(t, "https://x/a.png", *e.AvatarURL)
		require.EqualValues(t, 2, e.StreakDays)
		require.Nil(t, e.Delta)
		require.Equal(t, &e, p.Me)
		require.Equal(t, noon, p.UpdatedAt)
	}
	_, err := circles.Page(f.ctx, noon, boardOf(calendar.PeriodDay, ""), []uuid.UUID{id}, Query{Cursor: "x"})
	require.ErrorIs(t, err, ErrBadCursor)
	p, err := circles.Page(f.ctx, noon, boardOf(calendar.PeriodDay, ""), nil, Query{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, p.Entries)
}
