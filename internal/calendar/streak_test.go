package calendar

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStreakDays(t *testing.T) {
	t.Parallel()
	on := func(d Day) *Day { return &d }
	for _, c := range []struct {
		name        string
		first, last *Day
		want        int64
	}{
		{"never active", nil, nil, 0},
		{"one day, today", on(100), on(100), 1},
		{"ends today", on(90), on(100), 11},
		{"ends yesterday", on(90), on(99), 10},
		{"ended before", on(90), on(98), 0},
		{"ahead, after moving west", on(100), on(101), 2},
	} {
		require.Equal(t, c.want, StreakDays(c.first, c.last, 100), c.name)
	}
}
