package model

import (
	"maps"
	"slices"
)

// Total names a total: of a period that starts on a day, and of a language, or of all when Lang is empty.
type Total struct {
	Period   Period
	StartsOn Day
	Lang     string
}

// Totals adds up sessions; none of the totals is zero.
func Totals(sessions []Session) map[Total]int64 {
	out := map[Total]int64{}
	for _, s := range sessions {
		for at, n := range s.Seconds {
			for _, p := range Periods {
				out[Total{p, p.Start(at.Day), at.Lang}] += n
				out[Total{p, p.Start(at.Day), ""}] += n
			}
		}
	}
	return out
}

// Streak is a user's runs of days with any time in them.
type Streak struct{ days []Day }

// StreakOf is the streak that sessions make.
func StreakOf(sessions []Session) Streak {
	days := map[Day]bool{}
	for _, s := range sessions {
		for at := range s.Seconds {
			days[at.Day] = true
		}
	}
	return Streak{slices.Sorted(maps.Keys(days))}
}

// endingOn is the length of the run whose last day is d, or of its part up to d.
func (s Streak) endingOn(d Day) (n int64) {
	for slices.Contains(s.days, d-Day(n)) {
		n++
	}
	return n
}

// Longest is the longest run, in days.
func (s Streak) Longest() (n int64) {
	for _, d := range s.days {
		n = max(n, s.endingOn(d))
	}
	return n
}

// Current is the last run when it ends today or yesterday, in days, as read when the user's date is today. A last day that
// lies ahead, because the user has moved west since, counts like today.
func (s Streak) Current(today Day) int64 {
	last, ok := s.Last()
	if !ok || last < today-1 {
		return 0
	}
	return s.endingOn(last)
}

// Last is the last day with any time in it; false when there is none.
func (s Streak) Last() (Day, bool) {
	if len(s.days) == 0 {
		return 0, false
	}
	return s.days[len(s.days)-1], true
}

// Board is the seconds that a board shows of each user: nobody who is off, and no zeros.
func Board[K comparable](users map[K]*User, board Total) map[K]int64 {
	out := map[K]int64{}
	for k, u := range users {
		if u.mode == Off {
			continue
		}
		if n := Totals(u.Sessions())[board]; n > 0 {
			out[k] = n
		}
	}
	return out
}
