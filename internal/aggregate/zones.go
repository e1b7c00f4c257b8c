package aggregate

import (
	"fmt"
	"sort"
	"sync"
	"time"

	_ "time/tzdata" // zones must not depend on the machine
)

// ZoneChange says that a zone is in force from a second on.
type ZoneChange struct {
	FromS int64 // seconds since the epoch
	Name  string
}

// Zones are a user's zones over time, oldest first. The first one counts for all time before the second.
type Zones []ZoneChange

// At is the zone in force at second s, and UTC for a user without zones.
func (z Zones) At(s int64) string {
	if len(z) == 0 {
		return "UTC"
	}
	i := sort.Search(len(z), func(i int) bool { return z[i].FromS > s })
	return z[max(i-1, 0)].Name
}

// locations caches loaded zones: there are a few hundred names in all, and loading one parses its file.
var locations sync.Map

func loadLocation(name string) (*time.Location, error) {
	if loc, ok := locations.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("load zone: %w", errUnknownZone)
	}
	locations.Store(name, loc)
	return loc, nil
}
