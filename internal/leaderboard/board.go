package leaderboard

import (
	"slices"
	"time"

	"github.com/commma/commma/internal/calendar"
)

// Board names one board: a span of time, and a language key or "" for all languages.
type Board struct {
	calendar.Span
	Lang string
}

// Previous is the board of the span before, and false for all time.
func (b Board) Previous() (Board, bool) {
	span, ok := b.Span.Previous()
	return Board{Span: span, Lang: b.Lang}, ok
}

// Published are the spans that publishers write at now: the kept ones, and before each the one that another process may
// still keep, because its clock is behind. A board of the latter is not built when it is missing.
func Published(now time.Time) []calendar.Span {
	spans := calendar.Kept(now)
	for _, s := range spans {
		if before, ok := s.Previous(); ok && !slices.Contains(spans, before) {
			spans = append(spans, before)
		}
	}
	return spans
}

// isKept says whether the board of a span is in Redis at now, when all is well.
func isKept(s calendar.Span, now time.Time) bool { return slices.Contains(calendar.Kept(now), s) }

// minLifetime is what a board lives at least: one that was built for a span that is hardly kept any more.
const minLifetime = time.Hour

// lifetime is how long a board built at now stays: to the end of the second span after its own, when the last process has
// stopped publishing it. It is 0, for ever, for all time. It is a duration and not an instant because Redis has a clock
// of its own.
func (b Board) lifetime(now time.Time) time.Duration {
	if b.Period == calendar.PeriodAllTime {
		return 0
	}
	end := b.Period.Shift(b.StartsOn, 3).Midnight()
	return max(end.Sub(now), minLifetime)
}
