package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Standing is a session as it stands: its id, and the seconds of its first and last event.
type Standing struct {
	ID string
	Stretch
}

// Lineage follows the ids of a user's sessions from one sight to the next. An id is born when a session is finalized, so
// it cannot be foretold; what becomes of it can.
type Lineage struct {
	live map[string]Stretch
	heir map[string]string // of absorbed ids
	ever map[string]bool
}

// NewLineage is that of a user without sessions.
func NewLineage() *Lineage {
	return &Lineage{live: map[string]Stretch{}, heir: map[string]string{}, ever: map[string]bool{}}
}

// Live lists the sessions last seen, by time.
func (l *Lineage) Live() (out []Standing) {
	for id, s := range l.live {
		out = append(out, Standing{id, s})
	}
	slices.SortFunc(out, func(a, b Standing) int { return cmp.Compare(a.First, b.First) })
	return out
}

// Aliases lists the absorbed ids, in order.
func (l *Lineage) Aliases() []string { return slices.Sorted(maps.Keys(l.heir)) }

// Heir is the session that an absorbed id leads to.
func (l *Lineage) Heir(alias string) string { return l.heir[alias] }

// Delete forgets a session and what was absorbed by it.
func (l *Lineage) Delete(id string) {
	delete(l.live, id)
	maps.DeleteFunc(l.heir, func(_, heir string) bool { return heir == id })
}

// See takes what stands now, and says what cannot have come of what stood before. Between two sights, once says, there
// was at most one pass over the user's events.
func (l *Lineage) See(now []Standing, aliases map[string]string, once bool) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	placed := map[string]bool{}
	before := l.Live()
	for _, s := range now {
		var inside []string
		for _, b := range before {
			if b.Within(s.Stretch) {
				inside = append(inside, b.ID)
				placed[b.ID] = true
			}
		}
		born := !l.ever[s.ID]
		l.ever[s.ID] = true
		switch {
		case len(inside) == 0 && !born:
			fault("session %s at %v has an id that was another's", s.ID, s.Stretch)
		case len(inside) > 0 && s.ID != inside[0] && (once || !born):
			fault("session %s at %v is not %s, the earliest of %v in it", s.ID, s.Stretch, inside[0], inside)
		}
		for _, id := range inside {
			l.absorb(id, s.ID)
		}
		l.live[s.ID] = s.Stretch
	}
	for _, b := range before {
		if !placed[b.ID] {
			fault("session %s at %v is in no session any more", b.ID, b.Stretch)
			delete(l.live, b.ID)
		}
	}
	for id, heir := range aliases {
		if !once && !l.ever[id] {
			l.ever[id], l.heir[id] = true, heir // born and absorbed unseen
		}
	}
	if !maps.Equal(aliases, l.heir) {
		fault("aliases are %v and not %v", aliases, l.heir)
	}
	return faults
}

// absorb makes id, and all that it absorbed, lead to heir.
func (l *Lineage) absorb(id, heir string) {
	if id == heir {
		return
	}
	delete(l.live, id)
	l.heir[id] = heir
	for alias, h := range l.heir {
		if h == id {
			l.heir[alias] = heir
		}
	}
}
