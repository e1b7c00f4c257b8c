// Package activity holds the words that every part of Commma shares: an event as it is accepted and stored, and the
// privacy mode of a user. It does no I/O.
package activity

import (
	"fmt"

	"github.com/google/uuid"
)

// IdleSeconds is the longest pause inside a session: a larger gap between two neighbours ends it.
const IdleSeconds = 900

// WindowSeconds is how much activity an event stands for: the flush window of the clients that ends at its timestamp.
const WindowSeconds = 60

// Event is one accepted upload unit: what one file saw in the window that ends at TS. An event is identified by its
// user, ID and TS. An empty Project, File or KeyFreq means absent.
type Event struct {
	ID         uuid.UUID
	TS         int64  // milliseconds since the epoch
	Lang       string // language key, resolved
	Keystrokes int32  // 0 to 1,000,000
	Lines      int32  // -1,000,000 to 1,000,000
	Project    string
	File       string
	KeyFreq    string // key counts as canonical JSON: labels in byte order, no blanks
}

// Second is the event's whole second since the epoch: what all accounting uses.
func (e Event) Second() int64 { return FloorSecond(e.TS) }

// FloorSecond floors milliseconds since the epoch to whole seconds.
func FloorSecond(ms int64) int64 {
	s := ms / 1000
	if ms%1000 < 0 {
		s--
	}
	return s
}

// StripPrivate removes what only users on ModeFull keep: project, file and key counts.
func (e *Event) StripPrivate() { e.Project, e.File, e.KeyFreq = "", "", "" }

// Mode is a user's privacy mode.
type Mode string

const (
	// ModeFull keeps paths and key counts.
	ModeFull Mode = "full"
	// ModeSummary keeps id, time, language, keystrokes and lines.
	ModeSummary Mode = "summary"
	// ModeOff keeps nothing new, and the user is shown nowhere.
	ModeOff Mode = "off"
)

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case ModeFull, ModeSummary, ModeOff:
		return m, nil
	}
	return "", fmt.Errorf("unknown privacy mode %q: want full, summary or off", s)
}
