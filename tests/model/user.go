package model

import (
	"cmp"
	"math"
	"strings"
)

// Mode is a privacy mode.
type Mode string

// The privacy modes.
const (
	Full    Mode = "full"
	Summary Mode = "summary"
	Off     Mode = "off"
)

// Unknown is the language of an event that names none.
const Unknown = "unknown"

// Event is one accepted event. A nil text is an absent one.
type Event struct {
	ID                  string
	MS                  int64
	Lang                string
	Keystrokes, Lines   int64
	Project, File, Keys *string
}

// Second is the event's instant as all accounting sees it: floored, also before 1970.
func (e Event) Second() int64 { return floorDiv(e.MS, 1000) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// compare orders copies of an event: the smallest one counts.
func (e Event) compare(o Event) int {
	return cmp.Or(strings.Compare(e.Lang, o.Lang), cmp.Compare(e.Keystrokes, o.Keystrokes), cmp.Compare(e.Lines, o.Lines),
		compareText(e.Project, o.Project), compareText(e.File, o.File), compareText(e.Keys, o.Keys))
}

func compareText(a, b *string) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return strings.Compare(*a, *b)
}

func (e Event) stripped() Event {
	e.Project, e.File, e.Keys = nil, nil, nil
	return e
}

// identity is what makes two uploads copies of one event.
type identity struct {
	id string
	ms int64
}

// Stretch is a stretch of time, both ends included.
type Stretch struct{ First, Last int64 }

// Holds says whether an instant lies in the stretch.
func (s Stretch) Holds(second int64) bool { return s.First <= second && second <= s.Last }

// Within says whether all of the stretch lies in another one.
func (s Stretch) Within(o Stretch) bool { return o.First <= s.First && s.Last <= o.Last }

type zoneChange struct {
	from int64
	zone string
}

// User is all that a user's sessions, totals, streak and places are a function of.
type User struct {
	mode    Mode
	zones   []zoneChange // as they came; the first one counts for all time before the others
	events  map[identity]Event
	deleted []Stretch
	gone    bool
}

// NewUser makes a user on full, with the zone given at creation.
func NewUser(zone string) *User {
	return &User{mode: Full, zones: []zoneChange{{zone: zone}}, events: map[identity]Event{}}
}

// Mode is the user's present privacy mode.
func (u *User) Mode() Mode { return u.mode }

// SetMode changes the mode. What is not kept outside of full is gone for good.
func (u *User) SetMode(m Mode) {
	u.mode = m
	if m == Full {
		return
	}
	for k, e := range u.events {
		u.events[k] = e.stripped()
	}
}

// SetZone puts a zone in force from a second on.
func (u *User) SetZone(from int64, zone string) { u.zones = append(u.zones, zoneChange{from, zone}) }

// Zone is the zone that is in force at a second: the one that came last of those with the latest beginning.
func (u *User) Zone(second int64) string {
	best := u.zones[0]
	best.from = math.MinInt64
	for _, c := range u.zones[1:] {
		if c.from <= second && c.from >= best.from {
			best = c
		}
	}
	return best.zone
}

// Upload takes an event as the user's mode demands, and says whether it was accepted. Where the mode is summary, a
// language without a board must come in as Unknown.
func (u *User) Upload(e Event) bool {
	if u.mode == Off || u.gone {
		return false
	}
	if u.mode == Summary {
		e = e.stripped()
	}
	k := identity{e.ID, e.MS}
	if known, ok := u.events[k]; !ok || e.compare(known) < 0 {
		u.events[k] = e
	}
	return true
}

// Delete takes out the events of a stretch, now and whenever they arrive.
func (u *User) Delete(s Stretch) { u.deleted = append(u.deleted, s) }

// Erase takes out the user.
func (u *User) Erase() {
	u.gone = true
	u.events = map[identity]Event{}
}

// Gone says whether the user was erased.
func (u *User) Gone() bool { return u.gone }

// counting is the events that count, in no order.
func (u *User) counting() []Event {
	var out []Event
	for _, e := range u.events {
		dropped := false
		for _, d := range u.deleted {
			dropped = dropped || d.Holds(e.Second())
		}
		if !dropped {
			out = append(out, e)
		}
	}
	return out
}
