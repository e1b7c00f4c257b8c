package privacy

import (
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/languages"
)

// Strip takes from the events, in place, what a user in this mode does not keep: project, file, key counts, and the name
// of a language that is not listed (it can be anything, so it can be private). listed says of each event whether its
// language is; an event that it does not reach counts as not listed.
//
// Only a mode that is known strips, and off strips like summary: an event is never dropped here, because the mode may
// come from the cache.
func Strip(mode activity.Mode, events []activity.Event, listed []bool) {
	if mode != activity.ModeSummary && mode != activity.ModeOff {
		return
	}
	for i := range events {
		events[i].StripPrivate()
		if i >= len(listed) || !listed[i] {
			events[i].Lang = languages.Unknown
		}
	}
}
