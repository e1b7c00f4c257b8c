package aggregate

import (
	"time"

	"github.com/commma/commma/internal/calendar"
)

// localDays tells the local date of instants in one zone. It remembers the stretch it looked at last, since neighbouring
// slices nearly always fall on the same day.
type localDays struct {
	loc         *time.Location
	day         calendar.Day
	from, until int64 // the date is day for every second in [from, until)
}

// at is the local date at second s, and the first second after s at which the local date is another.
func (d *localDays) at(s int64) (day calendar.Day, until int64) {
	if s < d.from || s >= d.until {
		d.day, d.until = dateStretch(d.loc, s)
		d.from = s
	}
	return d.day, d.until
}

// dateStretch finds how long the local date stays what it is at s. A date can only change at a local midnight or where
// the zone's offset changes (which can be at midnight itself, skip midnight, or turn the date back), so it walks from one
// such instant to the next.
func dateStretch(loc *time.Location, s int64) (calendar.Day, int64) {
	t := time.Unix(s, 0).In(loc)
	day := calendar.DayOf(t)
	for {
		_, offset := t.Zone()
		next := s + secondsToMidnight(s+int64(offset))
		if _, end := t.ZoneBounds(); !end.IsZero() && end.Unix() < next {
			next = end.Unix()
		}
		s, t = next, time.Unix(next, 0).In(loc)
		if calendar.DayOf(t) != day {
			return day, s
		}
	}
}

// secondsToMidnight is how long it takes a clock without zones that shows local to reach the next midnight.
func secondsToMidnight(local int64) int64 {
	const day = 24 * 60 * 60
	return day - ((local%day)+day)%day
}
