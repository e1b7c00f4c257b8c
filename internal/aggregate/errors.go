package aggregate

import "errors"

// Why a user's data cannot be finalized. The texts are stored and logged: they must never quote data.
var (
	errUnknownZone = errors.New("zone is unknown")
	errKeyCounts   = errors.New("key counts are damaged")
	errPanic       = errors.New("panic")
	errArchiveGone = errors.New("archive is gone")
	errArchive     = errors.New("archive is damaged")
)
