package leaderboard

import (
	"sync"
	"time"

	_ "time/tzdata" // zones must not depend on the machine

	"github.com/commma/commma/internal/calendar"
)

// StreakDays is the length of the current streak at now: of the run of active days from first to last, when that ends
// today or yesterday in the user's zone, else 0 (rules of time, 8). A last day that is not over yet, or that lies ahead
// because the user travelled west since, counts like today.
func StreakDays(first, last *calendar.Day, zone *time.Location, now time.Time) int64 {
	if first == nil || last == nil || *last < calendar.DayOf(now.In(zone))-1 {
		return 0
	}
	return int64(*last-*first) + 1
}

// locations caches loaded zones: loading one parses its file, and there are a few hundred names in all.
var locations sync.Map

// locationOf is the zone of a name, and UTC for one that this binary does not know: a page is no place to fail over it.
func locationOf(name string) *time.Location {
	if loc, ok := locations.Load(name); ok {
		return loc.(*time.Location)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	locations.Store(name, loc)
	return loc
}
