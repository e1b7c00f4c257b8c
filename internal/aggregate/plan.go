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
}

// placed is a session with the id it gets, and the ids that end in it.
type placed struct {
	Session
	id       uuid.UUID
	absorbed []uuid.UUID
}

// plan says what must be written to replace a window.
type plan struct {
	sessions []placed
	replaced []uuid.UUID // sessions whose parts are written anew
	gone     []uuid.UUID // sessions that no longer exist under their own id
	deltas   []totalDelta
}

// unchanged is true when the new events said nothing new: all of them were in the archive already.
func (p *plan) unchanged() bool { return len(p.sessions) == 0 }

// makePlan builds the sessions of a window and new events together. The session that starts earliest keeps its id when
// several become one; the others are absorbed by it.
func makePlan(w *window, fresh []activity.Event, newID func() uuid.UUID) (plan, error) {
	known := Fold(w.events)
	all := Fold(slices.Concat(known, fresh))
	if slices.Equal(all, known) {
		return plan{}, nil
	}
	sessions, err := Build(all, w.zones)
	if err != nil {
		return plan{}, err
	}
	var p plan
	now := make(map[DayLang]int64)
	rest := w.sessions
	for i := range sessions {
		s := placed{Session: sessions[i]}
		for len(rest) > 0 && rest[0].first <= s.Last {
			p.replaced = append(p.replaced, rest[0].id)
			if s.id == uuid.Nil {
				s.id = rest[0].id
			} else {
				s.absorbed = append(s.absorbed, rest[0].id)
			}
			rest = rest[1:]
		}
		if s.id == uuid.Nil {
			s.id = newID()
		}
		for k, n := range s.Seconds {
			now[k] += n
		}
		p.gone = append(p.gone, s.absorbed...)
		p.sessions = append(p.sessions, s)
	}
	p.deltas = totalDeltas(difference(w.seconds, now))
	return p, nil
}

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
