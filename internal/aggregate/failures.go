package aggregate

import (
	"errors"

	"github.com/commma/commma/internal/store"
)

// faultKind says what a failed finalize means for the user and for the cycle.
type faultKind int

const (
	faultDatabase   faultKind = iota // the database cannot be worked with: the cycle ends
	faultConnection                  // the connection or the statement was cut off: the user's or the database's doing
	faultPassing                     // the next cycle may well succeed: nothing is remembered
	faultData                        // the user's data fails: the user is set aside
)

type fault struct {
	kind   faultKind
	reason string // a class or an SQLSTATE, never data
}

// classify tells the faults of a user's data from those of the database, by SQLSTATE class.
// See https://www.postgresql.org/docs/current/errcodes-appendix.html.
func classify(err error) fault {
	if state := store.SQLState(err); state != "" {
		return fault{kindOfState(state[:2]), state}
	}
	for _, known := range []error{errUnknownZone, errKeyCounts, errArchive, errArchiveGone, errHeavy, errPanic} {
		if errors.Is(err, known) {
			return fault{faultData, known.Error()}
		}
	}
	if store.IsConnectionError(err) {
		return fault{faultConnection, "connection lost, or out of time"}
	}
	// Whatever else fails on the way, such as a value that cannot be encoded, comes with the data.
	return fault{faultData, "internal"}
}

func kindOfState(class string) faultKind {
	switch class {
	case "08", "57": // connection, operator intervention: a shutdown, but also one cancelled statement
		return faultConnection
	case "26", "28", "3D", "42", "58": // wrong statement, role, database or schema; system error: everybody's
		return faultDatabase
	case "25", "40", "53", "55": // read-only, rollback, resources, not in the needed state
		return faultPassing
	default:
		return faultData
	}
}
