package account

import (
	"errors"

	"github.com/commma/commma/internal/store"
)

// ErrBusy means that others hold the user's locks for longer than a request may wait. Nothing was changed.
var ErrBusy = errors.New("the user is busy")

// ErrNotShown means that the change is made, and stays, but that boards do not show it yet: they will by themselves, and the
// same request again says whether they do, but for the delete of a user, who then is unknown.
var ErrNotShown = errors.New("changed, but boards do not show it yet")

// ErrUnknownUser means that there is no such user.
var ErrUnknownUser = errors.New("unknown user")

// ErrHandleTaken means that another user has the handle, or gave it up a short time ago.
var ErrHandleTaken = errors.New("the handle is taken")

// ErrHandleChanges means that the user keeps as many former handles from others as anybody may.
var ErrHandleChanges = errors.New("too many changes of the handle")

// InvalidError means that a value given for a user is not acceptable. Message is for the client; it does not repeat the
// value.
type InvalidError struct {
	Field   string
	Message string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Message }

// The SQLSTATEs with which Postgres gives up waiting for a lock.
const (
	lockNotAvailable = "55P03"
	deadlockDetected = "40P01"
)

// busy says that err is Postgres giving up on a lock.
func busy(err error) bool {
	state := store.SQLState(err)
	return state == lockNotAvailable || state == deadlockDetected
}
