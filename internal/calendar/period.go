package calendar

import (
	"fmt"
	"time"
)

// Period is a length of time that totals are kept for.
type Period string

// The periods of totals and boards. Weeks are ISO weeks: they start on Monday.
const (
	PeriodDay     Period = "day"
	PeriodWeek    Period = "week"
	PeriodMonth   Period = "month"
	PeriodAllTime Period = "alltime"
)

// Periods are all periods, shortest first.
var Periods = []Period{PeriodDay, PeriodWeek, PeriodMonth, PeriodAllTime}

// ParsePeriod reads a period's name.
func ParsePeriod(s string) (Period, error) {
	switch p := Period(s); p {
	case PeriodDay, PeriodWeek, PeriodMonth, PeriodAllTime:
		return p, nil
	}
	return "", fmt.Errorf("unknown period %q: want day, week, month or alltime", s)
}

// Start is the first day of the period that holds d. All time starts on 1970-01-01.
func (p Period) Start(d Day) Day {
	switch p {
	case PeriodWeek:
		return d - Day(floorMod(int(d)+3, 7)) // day 0 was a Thursday
	case PeriodMonth:
		t := d.Midnight()
		return Date(t.Year(), t.Month(), 1)
	case PeriodAllTime:
		return 0
	default:
		return d
	}
}

// Shift is the first day of the period n periods after the one that starts on start; n may be negative. All time has no
// neighbours: it shifts to itself.
func (p Period) Shift(start Day, n int) Day {
	switch p {
	case PeriodDay:
		return start + Day(n)
	case PeriodWeek:
		return start + Day(7*n)
	case PeriodMonth:
		t := start.Midnight()
		return Date(t.Year(), t.Month()+time.Month(n), 1)
	default:
		return start
	}
}

// Span is one period at one place in the calendar.
type Span struct {
	Period   Period
	StartsOn Day
}

// SpanOf is the period p that holds d.
func SpanOf(p Period, d Day) Span { return Span{Period: p, StartsOn: p.Start(d)} }

// Previous is the span before s, and false for all time, which has none.
func (s Span) Previous() (Span, bool) {
	if s.Period == PeriodAllTime {
		return Span{}, false
	}
	return Span{Period: s.Period, StartsOn: s.Period.Shift(s.StartsOn, -1)}, true
}

// End is the first day after the span, and false for all time, which has none.
func (s Span) End() (Day, bool) {
	if s.Period == PeriodAllTime {
		return 0, false
	}
	return s.Period.Shift(s.StartsOn, 1), true
}

// Kept are the spans whose boards are kept at now: of each period the current one in UTC, the previous one, and the next
// one, in which the day has already begun east of UTC.
func Kept(now time.Time) []Span {
	today := DayOf(now.UTC())
	spans := make([]Span, 0, 3*len(Periods))
	for _, p := range Periods {
		current := p.Start(today)
		if p == PeriodAllTime {
			spans = append(spans, Span{p, current})
			continue
		}
		for n := -1; n <= 1; n++ {
			spans = append(spans, Span{p, p.Shift(current, n)})
		}
	}
	return spans
}

func floorMod(a, n int) int { return ((a % n) + n) % n }
