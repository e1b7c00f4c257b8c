package aggregate

import "errors"

// Why a user's data cannot be finalized. The texts are stored and logged: they must never quote data.
var (
	errUnknownZone = errors.New("zone is unknown")
	errKeyCounts   = errors.New("key counts are damaged")
	errArchiveGone = errors.New("archive is gone")
	errArchive     = errors.New("archive is damaged")
	errHeavy       = errors.New("more events than may be finalized at once")
	errPanic       = errors.New("panic")
)

// errAway means that the connection was lost, and that the database does not answer on another one.
var errAway = errors.New("the database does not answer")

// panicError is a panic while a user was finalized.
type panicError struct{ stack []byte }

// Error implements error.
func (e *panicError) Error() string { return errPanic.Error() }

// Unwrap makes it an errPanic.
func (e *panicError) Unwrap() error { return errPanic }
