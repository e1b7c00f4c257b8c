package privacy

import (
	"github.com/google/uuid"

	"github.com/commma/commma/internal/activity"
)

// Visible is what a viewer may see of a user's pages.
type Visible struct {
	Page    bool // that they exist, with times, languages and counts
	Details bool // paths, projects and key counts too
}

// VisibleTo says what viewer may see of the pages of an owner in this mode; viewer is uuid.Nil for an anonymous one. Owners
// see what is kept. Others see the pages of who is on full or summary, and never a path; of who is on off they learn nothing,
// not even that there is somebody.
func VisibleTo(viewer, owner uuid.UUID, mode activity.Mode) Visible {
	if viewer == owner {
		return Visible{Page: true, Details: true}
	}
	return Visible{Page: mode == activity.ModeFull || mode == activity.ModeSummary}
}
