package aggregate

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/commma/commma/internal/activity"
)

// Fold sorts a user's events by time and keeps each once: an event is its id and timestamp. Of copies that differ
// otherwise the smallest stays, by language, keystrokes, lines, project, file and key counts in this order, texts
// compared bytewise, numbers by value, absent before present; so the outcome does not depend on which copy came first.
//
// Stripping a user's private fields before or after folding gives the same events, because those come last.
//
// It works in place and returns a prefix of events.
func Fold(events []activity.Event) []activity.Event {
	slices.SortFunc(events, func(a, b activity.Event) int {
		return cmp.Or(compareIdentity(&a, &b), compareContent(&a, &b))
	})
	return slices.CompactFunc(events, func(a, b activity.Event) bool { return compareIdentity(&a, &b) == 0 })
}

func compareIdentity(a, b *activity.Event) int {
	return cmp.Or(cmp.Compare(a.TS, b.TS), bytes.Compare(a.ID[:], b.ID[:]))
}

func compareContent(a, b *activity.Event) int {
	return cmp.Or(
		cmp.Compare(a.Lang, b.Lang),
		cmp.Compare(a.Keystrokes, b.Keystrokes),
		cmp.Compare(a.Lines, b.Lines),
		cmp.Compare(a.Project, b.Project),
		cmp.Compare(a.File, b.File),
		cmp.Compare(a.KeyFreq, b.KeyFreq),
	)
}
