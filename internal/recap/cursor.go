package recap

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/google/uuid"
)

// ErrBadCursor means that a text is not a cursor of the week that is asked for.
var ErrBadCursor = errors.New("invalid cursor")

// Cursor is the place after a user in the recaps of a week.
func Cursor(w Week, user uuid.UUID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(w.String() + "|" + user.String()))
}

// ParseCursor reads a cursor of a week; the empty one is the beginning, which is uuid.Nil.
func ParseCursor(w Week, s string) (uuid.UUID, error) {
	if s == "" {
		return uuid.Nil, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return uuid.Nil, ErrBadCursor
	}
	week, user, _ := strings.Cut(string(raw), "|")
	id, err := uuid.Parse(user)
	if err != nil || week != w.String() {
		return uuid.Nil, ErrBadCursor
	}
	return id, nil
}
