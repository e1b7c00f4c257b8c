package aggregate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/calendar"
)

func TestStreakExtend(t *testing.T) {
	t.Parallel()
	s := Streak{First: 10, Last: 12, Longest: 5}
	for _, c := range []struct {
		name             string
		active, inactive []calendar.Day
		want             Streak
		ok               bool
	}{
		{"nothing", nil, nil, s, true},
		{"the next day", []calendar.Day{13}, nil, Streak{10, 13, 5}, true},
		{"two more pass the longest", []calendar.Day{15, 13, 14}, nil, Streak{10, 15, 6}, true},
		{"a gap begins anew", []calendar.Day{14}, nil, Streak{14, 14, 5}, true},
		{"a late day needs a rebuild", []calendar.Day{9}, nil, s, false},
		{"a lost day needs a rebuild", []calendar.Day{13}, []calendar.Day{12}, s, false},
	} {
		got, ok := s.extend(c.active, c.inactive)
		require.Equal(t, c.ok, ok, c.name)
		if ok {
			require.Equal(t, c.want, got, c.name)
		}
	}
	got, ok := Streak{}.extend([]calendar.Day{0}, nil)
	require.True(t, ok)
	require.Equal(t, Streak{0, 0, 1}, got, "day zero is a day like any other")
}

func TestStreakExtendEqualsCounting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		days := rapid.SliceOfNDistinct(rapid.Map(rapid.IntRange(0, 40), func(n int) calendar.Day { return calendar.Day(n) }), 1, 30, rapid.ID).Draw(t, "days")
		slices.Sort(days)
		cut := rapid.IntRange(0, len(days)).Draw(t, "cut")
		s, ok := Streak{}.extend(days[:cut], nil)
		require.True(t, ok)
		s, ok = s.extend(days[cut:], nil)
		require.True(t, ok)

		var want Streak
		for i, d := range days {
			if i == 0 || d != days[i-1]+1 {
				want.First = d
			}
			want.Last = d
			want.Longest = max(want.Longest, int64(d-want.First)+1)
		}
		require.Equal(t, want, s)
	})
}
