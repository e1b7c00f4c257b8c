package recap

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
)

func TestParseWeek(t *testing.T) {
	t.Parallel()
	for in, monday := range map[string]string{
		"2026-W25": "2026-06-15", "2026-06-15": "2026-06-15", "2026-06-21": "2026-06-15",
		"2026-W53": "2026-12-28", "2027-01-03": "2026-12-28", "2027-W01": "2027-01-04", "2024-W01": "2024-01-01",
		"2025-W01": "2024-12-30", "1970-W02": "1970-01-05", "9999-W50": "9999-12-13",
	} {
		w, err := ParseWeek(in)
		require.NoError(t, err, in)
		require.Equal(t, monday, w.Start().String(), in)
		require.Equal(t, time.Monday, w.Start().Midnight().Weekday())
		back, err := ParseWeek(w.String())
		require.NoError(t, err)
		require.Equal(t, w, back)
	}
	for _, in := range []string{"", "2025-W53", "2026-W00", "2026-W54", "2026-w25", "2026-W5", "26-W25", "1970-01-04", "9999-12-31", "2026-13-01", "week"} {
		_, err := ParseWeek(in)
		require.ErrorIs(t, err, ErrBadWeek, in)
	}
}

// The last place where a week ends is twelve hours behind UTC; then its last session still has to be idle.
func TestOverAt(t *testing.T) {
	t.Parallel()
	w, err := ParseWeek("2026-W25")
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 6, 22, 12, 15, 0, 0, time.UTC), w.OverAt())
	require.Equal(t, "2026-W24", w.Previous().String())
	require.Equal(t, "2026-06-22", w.End().String())
}

func TestLadder(t *testing.T) {
	t.Parallel()
	var l Ladder
	require.Nil(t, l.Rank(0))
	require.EqualValues(t, 1, *l.Rank(5), "an empty board")
	l.add(900, 1)
	l.add(600, 2)
	l.add(60, 1)
	for seconds, want := range map[int64]int64{1000: 1, 900: 1, 700: 2, 600: 2, 599: 4, 60: 4, 1: 5} {
		require.EqualValues(t, want, *l.Rank(seconds), seconds)
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	w, other := WeekOf(calendar.Date(2026, 6, 15)), WeekOf(calendar.Date(2026, 6, 22))
	id := uuid.New()
	got, err := ParseCursor(w, Cursor(w, id))
	require.NoError(t, err)
	require.Equal(t, id, got)
	got, err = ParseCursor(w, "")
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, got)
	for _, bad := range []string{"x", "=", Cursor(other, id), "MjAyNi1XMjV8", "MjAyNi1XMjU"} {
		_, err := ParseCursor(w, bad)
		require.ErrorIs(t, err, ErrBadCursor, bad)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int64]string{0: "0 s", 59: "59 s", 60: "1 min", 3599: "59 min", 3600: "1 h", 7320: "2 h 2 min", 360_000: "100 h"} {
		require.Equal(t, want, Duration(seconds))
	}
	r := newRecap(uuid.New(), WeekOf(calendar.Date(2026, 6, 15)), time.Time{})
	require.Equal(t, "No coding this week.", r.Headline())
	require.NotEmpty(t, r.Note())
	r.total(calendar.PeriodWeek, r.Week.Start(), 12_600)
	r.total(calendar.PeriodWeek, r.Week.Start()-7, 9000)
	r.total(calendar.PeriodDay, r.Week.Start()+4, 7200)
	r.total(calendar.PeriodDay, r.Week.Start()-1, 60)
	r.total(calendar.PeriodDay, r.Week.End(), 60) // of another week
	r.TopLang, r.BestSeconds, r.StreakDays, r.Langs = "go", 5400, 3, []Lang{{"go", 9000}}
	r.close()
	require.EqualValues(t, 3600, r.OtherSeconds)
	require.EqualValues(t, 60, r.Days[6].PriorSeconds)
	require.Equal(t, "You coded 3 h 30 min, 40 % more than the week before.", r.Headline())
	require.Equal(t, "Mostly Go. The longest session had 1 h 30 min. The best day was Friday, with 2 h. The streak stands at 3 days.", r.Note())
	r.PriorSeconds = 25_200
	require.Equal(t, "You coded 3 h 30 min, 50 % less than the week before.", r.Headline())
	r.PriorSeconds = 12_600
	require.Equal(t, "You coded 3 h 30 min, as much as the week before.", r.Headline())
	one, three := int64(1), int64(3)
	require.Nil(t, r.RankDelta())
	r.Rank, r.PriorRank = &one, &three
	require.EqualValues(t, 2, *r.RankDelta())
}
