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

// Published are the spans that publishers write at now: the kept ones, and before each the one whose boards have not
// expired yet. A board of the latter is not built when it is missing. now is a time of Redis's clock, by which boards expire:
// so whatever board there is is written, and what a process takes for the present does not matter.
func Published(now time.Time) []calendar.Span {
	spans := calendar.Kept(now)
	for _, s := range spans {
		if before, ok := s.Previous(); ok && !slices.Contains(spans, before) {
			spans = append(spans, before)
		}
	}
	return spans
}

// isKept says whether the board of a span is in Redis at now, when all is well. Readers ask by their own clock: one that is
// wrong finds a board that is right, or none.
func isKept(s calendar.Span, now time.Time) bool { return slices.Contains(calendar.Kept(now), s) }

// isPublished says whether the board of a span may still be in Redis at now: if it is, it is right, but nobody builds it
// when it is missing.
func isPublished(s calendar.Span, now time.Time) bool { return slices.Contains(Published(now), s) }

// minLifetime is what a board lives at least: one that was built for a span that is not kept.
const minLifetime = time.Hour

// expires is when a board goes, in seconds by Redis's clock: at the end of the second span after its own, when publishers
// stop writing it. It is 0, for never, for all time.
func (b Board) expires() int64 {
	if b.Period == calendar.PeriodAllTime {
		return 0
	}
	return b.Period.Shift(b.StartsOn, 3).Midnight().Unix()
}
