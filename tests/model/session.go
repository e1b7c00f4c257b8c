package model

import (
	"cmp"
	"slices"
)

// The numbers of the rules, in seconds.
const (
	idle   = 900
	window = 60 // what an event saw ends at its second, and began so long before
)

// Session is a maximal run of events.
type Session struct {
	Stretch           // seconds of the first and the last event
	Start, End        int64
	Zone              string
	Events            int64
	Keystrokes, Lines int64
	Seconds           Seconds
}

// Seconds is seconds by local day and language.
type Seconds map[DayLang]int64

// DayLang is a local day and a language.
type DayLang struct {
	Day  Day
	Lang string
}

func (s Seconds) add(day Day, lang string, n int64) {
	if n != 0 {
		s[DayLang{day, lang}] += n
	}
}

// Sessions is all of the user's sessions once everything has ended, by time.
func (u *User) Sessions() []Session {
	events := u.counting()
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Second(), b.Second()) })
	var out []Session
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Second()-events[n-1].Second() <= idle {
			n++
		}
		out = append(out, u.session(events[:n]))
		events = events[n:]
	}
	return out
}

// Ended is the user's sessions that have ended at now.
func (u *User) Ended(now int64) (out []Session) {
	for _, s := range u.Sessions() {
		if now-s.Last > idle {
			out = append(out, s)
		}
	}
	return out
}

func (u *User) session(events []Event) Session {
	s := Session{Stretch: Stretch{events[0].Second(), events[len(events)-1].Second()}, Events: int64(len(events)), Seconds: Seconds{}}
	s.Start, s.End = s.First-window, s.Last
	s.Zone = u.Zone(s.First)
	at := map[int64][]Event{}
	for _, e := range events {
		s.Keystrokes += e.Keystrokes
		s.Lines += e.Lines
		at[e.Second()] = append(at[e.Second()], e)
	}
	left := s.Start
	for right := s.First; right <= s.Last; right++ {
		if len(at[right]) == 0 {
			continue
		}
		weights := weightsOf(at[right])
		for _, p := range cut(left, right, s.Zone) {
			for lang, n := range share(p.seconds, weights) {
				s.Seconds.add(p.day, lang, n)
			}
		}
		left = right
	}
	return s
}

type piece struct {
	day     Day
	seconds int64
}

// cut cuts the slice [left, right) wherever the local date changes.
func cut(left, right int64, zone string) (out []piece) {
	firstDay, firstOffset := local(left, zone)
	lastDay, lastOffset := local(right-1, zone)
	if firstDay == lastDay && firstOffset == lastOffset {
		return []piece{{firstDay, right - left}} // no zone changes its clocks twice within a slice
	}
	for second := left; second < right; second++ {
		day := LocalDay(second, zone)
		if len(out) == 0 || out[len(out)-1].day != day {
			out = append(out, piece{day: day})
		}
		out[len(out)-1].seconds++
	}
	return out
}

// weightsOf is the languages' part in a slice that belongs to events.
func weightsOf(events []Event) map[string]int64 {
	strokes, each := map[string]int64{}, map[string]int64{}
	var sum int64
	for _, e := range events {
		strokes[e.Lang] += e.Keystrokes
		each[e.Lang]++
		sum += e.Keystrokes
	}
	if sum == 0 {
		return each
	}
	return strokes
}

// share gives whole seconds to languages in proportion to their weights: by largest remainder, and at equal remainders to
// the bytewise smaller key.
func share(seconds int64, weights map[string]int64) map[string]int64 {
	type part struct {
		lang      string
		remainder int64
	}
	var sum int64
	for _, w := range weights {
		sum += w
	}
	out, left := map[string]int64{}, seconds
	var parts []part
	for lang, w := range weights {
		out[lang] = seconds * w / sum
		left -= out[lang]
		parts = append(parts, part{lang, seconds * w % sum})
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.remainder, a.remainder), cmp.Compare(a.lang, b.lang))
	})
	for _, p := range parts[:left] {
		out[p.lang]++
	}
	return out
}
