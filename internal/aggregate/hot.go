package aggregate

import (
	"slices"
	"sort"

	"github.com/commma/commma/internal/activity"
)

// openLimit is how long a run may stay open, in seconds, before it is finalized as it stands and extended later.
const openLimit = 24 * 60 * 60

// stretch is a span of event seconds, both ends included.
type stretch struct{ first, last int64 }

// hotSet is what is hot of one user, in one snapshot. events and seqs run in parallel. marks are the keys of the rows of
// hot_runs that were read before the events.
type hotSet struct {
	events []activity.Event
	seqs   []int64
	marks  []int64
}

// selection is the part of a hotSet that can be finalized, and what stays.
type selection struct {
	runs   []stretch
	events []activity.Event // folded
	seqs   []int64          // of every event that is used up, copies and deleted ones included
	open   []stretch        // runs that stay hot
}

// ended selects the runs that have ended at now (seconds since the epoch): more than the idle time has passed since
// their last event. A run that has been open for openLimit is selected too. Events in a deleted stretch belong to no
// run: they are used up at once.
func (h *hotSet) ended(now int64, deleted []stretch) selection {
	var sel selection
	for _, run := range Runs(Fold(withoutDeleted(h.events, deleted))) {
		s := stretch{run[0].Second(), run[len(run)-1].Second()}
		if now-s.last > activity.IdleSeconds || now-s.first >= openLimit {
			sel.runs = append(sel.runs, s)
			sel.events = append(sel.events, run...)
		} else {
			sel.open = append(sel.open, s)
		}
	}
	for i := range h.events {
		if s := h.events[i].Second(); within(sel.runs, s) || inAny(deleted, s) {
			sel.seqs = append(sel.seqs, h.seqs[i])
		}
	}
	return sel
}

// withoutDeleted copies the events that lie in no deleted stretch.
func withoutDeleted(events []activity.Event, deleted []stretch) []activity.Event {
	kept := make([]activity.Event, 0, len(events))
	for i := range events {
		if !inAny(deleted, events[i].Second()) {
			kept = append(kept, events[i])
		}
	}
	return kept
}

// inAny says whether s lies in one of the stretches, which may overlap. There are few: they are forgotten with the
// horizon.
func inAny(stretches []stretch, s int64) bool {
	return slices.ContainsFunc(stretches, func(d stretch) bool { return d.first <= s && s <= d.last })
}

// within says whether s lies in one of the stretches, which are sorted and disjoint.
func within(stretches []stretch, s int64) bool {
	i := sort.Search(len(stretches), func(i int) bool { return stretches[i].last >= s })
	return i < len(stretches) && stretches[i].first <= s
}
