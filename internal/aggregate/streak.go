package aggregate

import (
	"slices"

	"github.com/commma/commma/internal/calendar"
)

// Streak is a user's latest run of active days and the length of the longest there was. Whether the latest run is
// current is decided when it is read: it must end today or yesterday in the user's zone.
type Streak struct {
	First, Last calendar.Day
	Longest     int64 // days; 0 means that there has been no active day
}

// extend adds newly active days to the end of a streak. It is false when that is not enough: when a day became inactive,
// or when a day lies before the latest run, where it may join or lengthen older runs. Then the streak is rebuilt from the
// days themselves.
func (s Streak) extend(active, inactive []calendar.Day) (Streak, bool) {
	if len(inactive) > 0 {
		return s, false
	}
	active = slices.Sorted(slices.Values(active))
	for _, d := range active {
		switch {
		case s.Longest == 0:
			s.First, s.Last = d, d
		case d == s.Last+1:
			s.Last = d
		case d > s.Last:
			s.First, s.Last = d, d
		default:
			return s, false
		}
		s.Longest = max(s.Longest, int64(s.Last-s.First)+1)
	}
	return s, true
}

// changedDays are the days that become active and those that become inactive when day totals of all languages change by
// deltas. before holds the totals that stand now; a missing one is zero.
func changedDays(before map[calendar.Day]int64, deltas []totalDelta) (active, inactive []calendar.Day) {
	for _, d := range deltas {
		if d.span.Period != calendar.PeriodDay || d.lang != "" {
			continue
		}
		was, is := before[d.span.StartsOn], before[d.span.StartsOn]+d.seconds
		switch {
		case was == 0 && is > 0:
			active = append(active, d.span.StartsOn)
		case was > 0 && is == 0:
			inactive = append(inactive, d.span.StartsOn)
		}
	}
	return active, inactive
}
