package recap

import (
	"fmt"
	"math"
	"strings"

	"github.com/commma/commma/internal/languages"
)

// Duration is a number of seconds as people say it: whole minutes, rounded down, as "3 h 5 min", "12 min" or, under a
// minute, "40 s".
func Duration(seconds int64) string {
	h, m := seconds/3600, seconds/60%60
	switch {
	case seconds < 60:
		return fmt.Sprintf("%d s", seconds)
	case h == 0:
		return fmt.Sprintf("%d min", m)
	case m == 0:
		return fmt.Sprintf("%d h", h)
	}
	return fmt.Sprintf("%d h %d min", h, m)
}

// Headline is the week in one sentence.
func (r *Recap) Headline() string {
	if r.Seconds == 0 {
		return "No coding this week."
	}
	how := ""
	if pct := r.Change(); pct != nil {
		switch n := math.Round(*pct); {
		case n > 0:
			how = fmt.Sprintf(", %.0f %% more than the week before", n)
		case n < 0:
			how = fmt.Sprintf(", %.0f %% less than the week before", -n)
		default:
			how = ", as much as the week before"
		}
	}
	return "You coded " + Duration(r.Seconds) + how + "."
}

// Note is what else is worth a sentence.
func (r *Recap) Note() string {
	if r.Seconds == 0 {
		return "The next week is a new one."
	}
	var parts []string
	if r.TopLang != "" {
		parts = append(parts, "Mostly "+languages.DisplayName(r.TopLang)+".")
	}
	if r.BestSeconds > 0 {
		parts = append(parts, "The longest session had "+Duration(r.BestSeconds)+".")
	}
	if best := r.bestDay(); best.Seconds > 0 {
		parts = append(parts, fmt.Sprintf("The best day was %s, with %s.", best.Weekday(), Duration(best.Seconds)))
	}
	if r.StreakDays > 1 {
		parts = append(parts, fmt.Sprintf("The streak stands at %d days.", r.StreakDays))
	}
	return strings.Join(parts, " ")
}

// bestDay is the day with most seconds, of several the first.
func (r *Recap) bestDay() Day {
	best := r.Days[0]
	for _, d := range r.Days[1:] {
		if d.Seconds > best.Seconds {
			best = d
		}
	}
	return best
}

// Weekday is the day's name.
func (d Day) Weekday() string { return d.Date.Midnight().Weekday().String() }
