package aggregate

import (
	"slices"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
)

// standing is a session that stands where new events touch.
type standing struct {
	id uuid.UUID
	stretch
}

// window is what stands in the part of a user's history that is about to be recomputed.
type window struct {
	sessions []standing        // by start
	events   []activity.Event  // their archives
	seconds  map[DayLang]int64 // their seconds, added up
	zones    Zones
	deleted  []stretch
}

// placed is a session with the id it gets, and the ids that end in it.
type placed struct {
	Session
	id       uuid.UUID
	absorbed []uuid.UUID
}

// plan says what must be written to replace a window.
type plan struct {
	changed  bool // false: the new events said nothing that was not in the archive already
	sessions []placed
	replaced []uuid.UUID // sessions whose parts are written anew
	gone     []uuid.UUID // sessions that no longer exist under their own id
	deleted  []uuid.UUID // those of gone that nothing is left of
	made     []uuid.UUID // sessions that did not exist before
	deltas   []totalDelta
}

// makePlan builds the sessions of a window and new events together. The session that starts earliest keeps its id when
// several become one; the others are absorbed by it.
func makePlan(w *window, fresh []activity.Event, newID func() uuid.UUID) (plan, error) {
	known := Fold(w.events)
	all := Fold(withoutDeleted(slices.Concat(known, fresh), w.deleted))
	if slices.Equal(all, known) {
		return plan{}, nil
	}
	sessions, err := Build(all, w.zones)
	if err != nil {
		return plan{}, err
	}
	p := plan{changed: true}
	now := make(map[DayLang]int64)
	for _, s := range w.sessions {
		p.replaced = append(p.replaced, s.id)
	}
	rest := w.sessions
	for i := range sessions {
		s := placed{Session: sessions[i]}
		for ; len(rest) > 0 && rest[0].first <= s.Last; rest = rest[1:] {
			switch {
			case rest[0].last < s.First: // nothing of it is left
				p.deleted = append(p.deleted, rest[0].id)
			case s.id == uuid.Nil:
				s.id = rest[0].id
			default:
				s.absorbed = append(s.absorbed, rest[0].id)
			}
		}
		if s.id == uuid.Nil {
			s.id = newID()
			p.made = append(p.made, s.id)
		}
		for k, n := range s.Seconds {
			now[k] += n
		}
		p.gone = append(p.gone, s.absorbed...)
		p.sessions = append(p.sessions, s)
	}
	for _, s := range rest {
		p.deleted = append(p.deleted, s.id)
	}
	p.gone = append(p.gone, p.deleted...)
	p.deltas = totalDeltas(difference(w.seconds, now))
	return p, nil
}

// moreSessions is by how many sessions the user has more than before.
func (p *plan) moreSessions() int64 { return int64(len(p.made)) - int64(len(p.gone)) }

// days are the local days whose total of all languages changes.
func (p *plan) days() []calendar.Day {
	var days []calendar.Day
	for _, d := range p.deltas {
		if d.span.Period == calendar.PeriodDay && d.lang == "" {
			days = append(days, d.span.StartsOn)
		}
	}
	return days
}
