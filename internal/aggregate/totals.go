package aggregate

import (
	"cmp"
	"slices"

	"github.com/commma/commma/internal/calendar"
)

// totalKey names one total of a user. Lang is "" for all languages.
type totalKey struct {
	span calendar.Span
	lang string
}

// totalDelta is by how much one total changes.
type totalDelta struct {
	totalKey
	seconds int64 // may be negative
}

// difference is now - before, by day and language, without what stays the same.
func difference(before, now map[DayLang]int64) map[DayLang]int64 {
	d := make(map[DayLang]int64, len(now))
	for k, n := range now {
		d[k] += n
	}
	for k, n := range before {
		d[k] -= n
	}
	for k, n := range d {
		if n == 0 {
			delete(d, k)
		}
	}
	return d
}

// totalDeltas spreads a difference of days over every total that contains them: day, week, month and all time, for the
// language and for all languages. The order is fixed, so that two transactions could never wait for each other crosswise.
func totalDeltas(days map[DayLang]int64) []totalDelta {
	sums := make(map[totalKey]int64, 8*len(days))
	for k, n := range days {
		for _, p := range calendar.Periods {
			span := calendar.SpanOf(p, k.Day)
			sums[totalKey{span, k.Lang}] += n
			sums[totalKey{span, ""}] += n
		}
	}
	deltas := make([]totalDelta, 0, len(sums))
	for k, n := range sums {
		if n != 0 {
			deltas = append(deltas, totalDelta{k, n})
		}
	}
	slices.SortFunc(deltas, func(a, b totalDelta) int {
		return cmp.Or(
			cmp.Compare(a.span.Period, b.span.Period),
			cmp.Compare(a.span.StartsOn, b.span.StartsOn),
			cmp.Compare(a.lang, b.lang),
		)
	})
	return deltas
}
