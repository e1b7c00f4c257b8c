package privacy

import (
	"github.com/google/uuid"

	"github.com/commma/commma/internal/activity"
)

// Viewer is who reads, as seen from whose data it is.
type Viewer int

// Who may read. What is not one of them is Anonymous.
const (
	Anonymous Viewer = iota // nobody has proven to be anybody
	Other                   // another user
	Owner
)

// ViewerOf tells what viewer is to owner. uuid.Nil is nobody.
func ViewerOf(viewer, owner uuid.UUID) Viewer {
	switch viewer {
	case uuid.Nil:
		return Anonymous
	case owner:
		return Owner
	}
	return Other
}

// Kind is a kind of what is read of a user.
type Kind int

// What can be read of a user.
const (
	Detail  Kind = iota + 1 // one session in full: languages, files, key counts, pace
	List                    // sessions in short
	Profile                 // handle, streak, sums
	Heatmap                 // seconds per day
	Recap                   // a week in review
	Board                   // a place on a board, of any period, language or group
	Feed                    // sessions in short, among those of others
)

// HoldsPaths says whether answers of this kind can hold paths, projects or key counts. They must not be kept by anybody
// but the viewer, nor shown again without asking.
func (k Kind) HoldsPaths() bool { return k == Detail }

// Access is how much of it may be read.
type Access int

// How much may be read. Hidden is the zero value, and is answered as if there were nothing: 404, or no place.
const (
	Hidden       Access = iota
	WithoutPaths        // all but paths, projects and key counts
	WithPaths
)

// Hides says whether a viewer, uuid.Nil for an anonymous one, may read nothing of this kind of a user in this mode, by See.
func Hides(viewer, userID uuid.UUID, m activity.Mode, k Kind) bool {
	return See(ViewerOf(viewer, userID), m, k) == Hidden
}

// See is the one answer to what a viewer may read of a user in this mode; docs/privacy.md has it as a table. Every read of
// another user's data asks it, or is a query that says the same (boards: privacy <> 'off') and is held against it by a
// test. Whatever is not known is hidden.
//
// The mode must be read with the data, in one statement: one that is cached, or read before, may be the one before a
// change that was answered.
func See(v Viewer, m activity.Mode, k Kind) Access {
	most := WithoutPaths
	if k.HoldsPaths() {
		most = WithPaths
	}
	switch {
	case k < Detail || k > Feed:
		return Hidden
	case k == Board && m == activity.ModeOff:
		return Hidden // a place of one's own would still be a place that others lack
	case v == Owner:
		return most
	case k == Recap:
		return Hidden // is for its owner alone
	case m == activity.ModeFull:
		return most
	case m == activity.ModeSummary:
		return WithoutPaths // none are kept; should one be, it is not shown
	}
	return Hidden
}
