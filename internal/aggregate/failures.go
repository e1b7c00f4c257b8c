package aggregate

import (
	"errors"

	"github.com/commma/commma/internal/store"
)

// faultKind says what a failed finalize means for the user and for the cycle.
type faultKind int

const (
	faultDatabase faultKind = iota // the database cannot be worked with: the cycle ends
	faultPassing                   // the next cycle may well succeed: nothing is remembered
	faultData                      // the user's data fails: the user is set aside
)

type fault struct {
	kind   faultKind
	reason string // a class or an SQLSTATE, never data
}

// classify tells the faults of a user's data from those of the database, by SQLSTATE class.
// See https://www.postgresql.org/docs/current/errcodes-appendix.html.
func classify(err error) fault {
	if state := store.SQLState(err); state != "" {
		switch state[:2] {
		case "08", "57", "58": // connection, operator intervention, system error
			return fault{faultDatabase, state}
		case "40", "53", "55": // rollback, resources, not in the needed state
			return fault{faultPassing, state}
		default:
			return fault{faultData, state}
		}
	}
	if store.IsConnectionError(err) {
		return fault{kind: faultDatabase}
	}
	for _, known := range []error{errUnknownZone, errKeyCounts, errArchive, errArchiveGone, errPanic} {
		if errors.Is(err, known) {
			return fault{faultData, known.Error()}
		}
	}
	// Whatever else fails on the way, such as a value that cannot be encoded, comes with the data.
	return fault{faultData, "internal"}
}
