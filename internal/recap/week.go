package recap

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/commma/commma/internal/calendar"
)

// Week is an ISO week, Monday to Sunday, by the Monday that it starts on.
type Week struct{ monday calendar.Day }

// ErrBadWeek means that a text names no week.
var ErrBadWeek = errors.New("want a week, such as 2026-W25, or a date in it, YYYY-MM-DD, from 1970-01-05 to 9999-12-19")

// WeekOf is the week that holds a day.
func WeekOf(d calendar.Day) Week { return Week{calendar.PeriodWeek.Start(d)} }

var isoForm = regexp.MustCompile(`^([0-9]{4})-W([0-9]{2})$`)

// The first whole week of the epoch, and the last whose end can still be written with four digits.
var (
	firstMonday = calendar.Date(1970, time.January, 5)
	lastMonday  = calendar.Date(9999, time.December, 13)
)

// ParseWeek reads a week as 2026-W25, or by any day in it, as 2026-06-17. It fails with ErrBadWeek.
func ParseWeek(s string) (Week, error) {
	var w Week
	if m := isoForm.FindStringSubmatch(s); m != nil {
		year, _ := strconv.Atoi(m[1])
		n, _ := strconv.Atoi(m[2])
		w = WeekOf(calendar.Date(year, time.January, 4)) // is always in the first week
		w.monday += calendar.Day(7 * (n - 1))
		if w.String() != s { // week 53 of a year that has 52, week 0
			return Week{}, ErrBadWeek
		}
	} else {
		d, err := calendar.ParseDay(s)
		if err != nil {
			return Week{}, ErrBadWeek
		}
		w = WeekOf(d)
	}
	if w.monday < firstMonday || w.monday > lastMonday {
		return Week{}, ErrBadWeek
	}
	return w, nil
}

// Start is the Monday.
func (w Week) Start() calendar.Day { return w.monday }

// End is the Monday after the week.
func (w Week) End() calendar.Day { return w.monday + 7 }

// Previous is the week before.
func (w Week) Previous() Week { return Week{w.monday - 7} }

// String is the week as 2026-W25.
func (w Week) String() string {
	year, n := w.monday.Midnight().ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, n)
}

// How long after Monday's first instant in UTC a week is over everywhere: the last zones are twelve hours behind, and a
// session that ended with the week becomes one when it has been idle for as long as a session's gap may be.
const overAfter = 12*time.Hour + 15*time.Minute

// OverAt is when the week is over in every zone.
func (w Week) OverAt() time.Time { return w.End().Midnight().Add(overAfter) }
