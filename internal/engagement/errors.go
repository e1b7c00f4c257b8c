package engagement

import "errors"

var (
	// ErrNotFound means that there is no such session or comment that the user may see.
	ErrNotFound = errors.New("session or comment not found")
	// ErrOwnSession means that somebody wants to give kudos to a session of their own.
	ErrOwnSession = errors.New("kudos for one's own session")
	// ErrOff means that the user is on off: nothing new is kept of them.
	ErrOff = errors.New("the user is on off")
	// ErrNotYours means that a comment is neither the user's nor on a session of theirs.
	ErrNotYours = errors.New("the comment belongs to somebody else")
	// ErrBadBody means that the text of a comment has no character left after trimming, or too many.
	ErrBadBody = errors.New("a comment has 1 to 2000 characters")
	// ErrBadCursor means that a cursor was not made by Cursor.String.
	ErrBadCursor = errors.New("invalid cursor")
	// ErrBusy means that the session was being merged time and again while it was asked for. Nothing was changed.
	ErrBusy = errors.New("the session is busy")
)
