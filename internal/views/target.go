package views

import (
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/calendar"
)

// Target is a page that is looked at: a user's profile, or one of the user's sessions.
type Target struct {
	Owner   uuid.UUID
	Session uuid.UUID // uuid.Nil for the profile
}

// profileField stands in a field for the profile.
const profileField = "profile"

// field is the target and a day as a field of the buffer: owner:page:date.
func (t Target) field(day calendar.Day) string {
	return t.Owner.String() + ":" + t.page() + ":" + day.String()
}

func (t Target) page() string {
	if t.Session == uuid.Nil {
		return profileField
	}
	return t.Session.String()
}

var errField = errors.New("not a field of a view")

// parseField reads what field wrote.
func parseField(s string) (Target, calendar.Day, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return Target{}, 0, errField
	}
	var t Target
	owner, errOwner := uuid.Parse(parts[0])
	day, errDay := calendar.ParseDay(parts[2])
	t.Owner = owner
	if parts[1] == profileField {
		return t, day, errors.Join(errOwner, errDay)
	}
	session, errSession := uuid.Parse(parts[1])
	t.Session = session
	return t, day, errors.Join(errOwner, errDay, errSession)
}
