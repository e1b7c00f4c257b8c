package replay

import (
	"fmt"
	"strconv"
	"time"
)

const (
	week = 7 * 24 * time.Hour

	// maxAutoSpan is the longest stretch of data that is moved by itself. Longer data cannot fit the 30 days that a server
	// accepts by default, wherever it is moved to.
	maxAutoSpan = 4 * week
)

// Shift says by how many weeks a file is moved forward in time. Whole weeks keep the hour of the day (in UTC) and the day
// of the week of every event. The zero value moves nothing.
type Shift struct {
	auto  bool
	weeks int
}

// ShiftAuto moves the latest event to within the past week.
var ShiftAuto = Shift{auto: true}

// ShiftBy moves by weeks, which must not be negative.
func ShiftBy(weeks int) Shift { return Shift{weeks: weeks} }

// ParseShift reads "auto" or a number of weeks; empty is 0.
func ParseShift(s string) (Shift, error) {
	switch s {
	case "":
		return Shift{}, nil
	case "auto":
		return ShiftAuto, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 100*53 {
		return Shift{}, fmt.Errorf("parse shift: want auto or a number of weeks, 0 to %d", 100*53)
	}
	return ShiftBy(n), nil
}

// weeksFor is the number of weeks that events from first to last (ms since the epoch) move at now. An automatic shift
// refuses what it cannot bring whole into the window that begins maxAge before now.
func (s Shift) weeksFor(first, last int64, now time.Time, maxAge time.Duration) (int, error) {
	if !s.auto {
		return s.weeks, nil
	}
	span := time.Duration(last-first) * time.Millisecond
	if span > maxAutoSpan {
		return 0, fmt.Errorf("shift events: they span %s, and at most 4 weeks can be shifted automatically: "+
			"give a number of weeks, or load them unshifted into a server with a larger --max-event-age", days(span))
	}
	weeks := max(0, int(now.Sub(time.UnixMilli(last))/week)) // events of the future stay where they are
	first += int64(weeks) * week.Milliseconds()
	if age := now.Sub(time.UnixMilli(first)); age > maxAge {
		return 0, fmt.Errorf("shift events: they span %s, and moved by %d whole weeks the oldest is %s old, which is more "+
			"than the %s that are accepted: try on a later day of the week, or use a larger --max-event-age on both sides",
			days(span), weeks, days(age), days(maxAge))
	}
	return weeks, nil
}

func days(d time.Duration) string {
	return strconv.FormatFloat(d.Hours()/24, 'f', 1, 64) + " days"
}
