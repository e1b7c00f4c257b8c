// Package sessions reads finalized coding sessions for people: lists for their owner, single ones for whoever may see them
// by privacy.See. It writes nothing; sessions are made by package aggregate.
package sessions

import (
	"cmp"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

var (
	// ErrNotFound means that there is no such session for the viewer: it does not exist, or is hidden. The two are one
	// error, so that an id cannot be probed.
	ErrNotFound = errors.New("session not found")
	// ErrBadCursor means that a cursor was not made by Cursor.String.
	ErrBadCursor = errors.New("invalid cursor")
)

// Session is one session in short. Instants are UTC.
type Session struct {
	ID         uuid.UUID
	StartedAt  time.Time
	EndedAt    time.Time
	Keystrokes int64
	Lines      int64  // added less removed
	TopLang    string // language key
	Counts     Counts
}

// Counts are what others did with a session. They follow within seconds (views within minutes).
type Counts struct{ Views, Shares, Kudos, Comments int64 }

// Duration is the session's length in whole seconds, always at least activity.WindowSeconds.
func (s *Session) Duration() int64 { return s.EndedAt.Unix() - s.StartedAt.Unix() }

// Pace is keystrokes per minute, rounded half up.
func (s *Session) Pace() int64 {
	d := max(s.Duration(), 1)
	return (s.Keystrokes*60 + d/2) / d
}

// Detail is one session in full.
type Detail struct {
	Session
	PeakCPM      int64     // keystrokes of the busiest minute
	PeakAt       time.Time // when that minute was, UTC
	Langs        []LangSeconds
	OtherSeconds int64            // of the languages that are not among Langs
	Files        []File           // most changes first; empty when nothing is kept
	KeyCounts    map[string]int64 // presses by key label; nil when nothing is kept
}

// Ref says whose session an id leads to, and under which id it stands now.
type Ref struct{ Owner, ID uuid.UUID }

// MaxLangs bounds the languages of a Detail: it must not grow with what a user made up.
const MaxLangs = 100

// LangSeconds is a language's part of a session. Langs are the MaxLangs languages with the most seconds, most first, ties
// by key; their seconds and OtherSeconds add up to the session's duration.
type LangSeconds struct {
	Lang    string // language key
	Seconds int64
}

// File is one file of a session.
type File struct {
	Path    string `json:"path"`
	Changes int64  `json:"changes"` // keystrokes
}

// Page is a stretch of a user's sessions, newest first.
type Page struct {
	Sessions []Session
	Next     *Cursor // where the next page starts; nil at the end
}

// Cursor is a place in a user's list: right after the session with this start and id.
type Cursor struct {
	StartedAt time.Time
	ID        uuid.UUID
}

// cursorTime is how the published web client's cursors write an instant.
const cursorTime = "2006-01-02T15:04:05.000Z"

// String is base64url without padding of <started_at ISO ms>|<session id>.
func (c Cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.StartedAt.UTC().Format(cursorTime) + "|" + c.ID.String()))
}

// ParseCursor reads what String wrote; whatever else it is given is ErrBadCursor.
func ParseCursor(s string) (Cursor, error) {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		return Cursor{}, ErrBadCursor
	}
	at, id, ok := strings.Cut(string(raw), "|")
	if !ok {
		return Cursor{}, ErrBadCursor
	}
	var c Cursor
	if c.StartedAt, err = time.Parse(cursorTime, at); err != nil {
		return Cursor{}, ErrBadCursor
	}
	if c.ID, err = ParseID(id); err != nil {
		return Cursor{}, ErrBadCursor
	}
	return c, nil
}

// ParseID reads a session id in its usual form of 36 characters. Anything else names no session: ErrNotFound.
func ParseID(s string) (uuid.UUID, error) {
	// uuid.Parse also takes braces, urn: and 32 bare digits, under which one session would have many names.
	if len(s) != 36 {
		return uuid.UUID{}, ErrNotFound
	}
	id, err := uuid.Parse(s)
	if err != nil {
		return uuid.UUID{}, ErrNotFound
	}
	return id, nil
}

// orderLangs makes the ordered list of a session's languages.
func orderLangs(seconds map[string]int64) []LangSeconds {
	langs := make([]LangSeconds, 0, len(seconds))
	for lang, s := range seconds {
		langs = append(langs, LangSeconds{lang, s})
	}
	slices.SortFunc(langs, func(a, b LangSeconds) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Lang, b.Lang))
	})
	return langs
}
