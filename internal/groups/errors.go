package groups

import "errors"

var (
	// ErrNotFound means that there is no such group, invitation or user that the actor may see.
	ErrNotFound = errors.New("group not found")
	// ErrNotOwner means that only the owner of the group may do that.
	ErrNotOwner = errors.New("not the owner of the group")
	// ErrOff means that the actor is on off: nothing new is kept of them.
	ErrOff = errors.New("the user is on off")
	// ErrMember means that who is invited, or is to be removed, cannot be: a member needs no invitation, and an owner leaves.
	ErrMember = errors.New("is a member")
	// ErrBadName means that a name has no character left after trimming, or too many.
	ErrBadName = errors.New("a group's name has 1 to 80 characters")
	// ErrTooMany means that a limit is reached: of the user's groups, the group's members, or somebody's invitations.
	ErrTooMany = errors.New("a limit is reached")
)
