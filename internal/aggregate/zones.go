package aggregate

import (
	"fmt"
	"sort"
	"time"

	"github.com/commma/commma/internal/zones"
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

// Latest is the zone in force after the last change, and UTC for a user without zones.
func (z Zones) Latest() string {
	if len(z) == 0 {
		return "UTC"
	}
	return z[len(z)-1].Name
}

func loadLocation(name string) (*time.Location, error) {
	loc, err := zones.Load(name)
	if err != nil {
		return nil, fmt.Errorf("load zone: %w", errUnknownZone)
	}
	return loc, nil
}
