package aggregate

import (
	"cmp"
	"slices"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
)

// DayLang is a language on a local day.
type DayLang struct {
	Day  calendar.Day
	Lang string
}

// Session is a maximal run of events with no gap over the idle time, and what follows from it.
type Session struct {
	First, Last int64 // seconds of its first and last event, since the epoch
	Zone        string
	Seconds     map[DayLang]int64
	TopLang     string // the language with the most seconds, ties to the bytewise smaller
	Keystrokes  int64
	Lines       int64
	PeakMinute  int64 // start of the UTC minute with the most keystrokes, ties to the earliest
	PeakCount   int64 // keystrokes in that minute
	Events      []activity.Event
}

// StartedAt is when the session began: the window of its first event ends at that event's second.
func (s *Session) StartedAt() int64 { return s.First - activity.WindowSeconds }

// Duration is the session's length in seconds.
func (s *Session) Duration() int64 { return s.Last - s.StartedAt() }

// Runs splits folded events wherever a gap over the idle time lies between two neighbours.
func Runs(events []activity.Event) [][]activity.Event {
	var runs [][]activity.Event
	start := 0
	for i := 1; i <= len(events); i++ {
		if i == len(events) || events[i].Second()-events[i-1].Second() > activity.IdleSeconds {
			runs = append(runs, events[start:i:i])
			start = i
		}
	}
	return runs
}

// Build makes the sessions of folded events. It fails only when a zone is unknown.
func Build(events []activity.Event, zones Zones) ([]Session, error) {
	runs := Runs(events)
	sessions := make([]Session, 0, len(runs))
	for _, run := range runs {
		s, err := buildSession(run, zones)
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, s)
	}
	return sessions, nil
}

func buildSession(run []activity.Event, zones Zones) (Session, error) {
	s := Session{
		First:   run[0].Second(),
		Last:    run[len(run)-1].Second(),
		Seconds: make(map[DayLang]int64, 2),
		Events:  run,
	}
	s.Zone = zones.At(s.First)
	loc, err := loadLocation(s.Zone)
	if err != nil {
		return Session{}, err
	}
	days := &localDays{loc: loc}
	var buf []weight
	from := s.StartedAt()
	for rest := run; len(rest) > 0; {
		n := sameSecond(rest)
		buf = weigh(buf[:0], rest[:n])
		to := rest[0].Second()
		s.addSlice(days, from, to, buf)
		from, rest = to, rest[n:]
	}
	s.TopLang = topLang(s.Seconds)
	s.count()
	return s, nil
}

// sameSecond is how many events at the front fall on the same second.
func sameSecond(events []activity.Event) int {
	n := 1
	for n < len(events) && events[n].Second() == events[0].Second() {
		n++
	}
	return n
}

// addSlice gives the seconds [from, to) to the languages that stand at its right end, cut where the local date changes.
func (s *Session) addSlice(days *localDays, from, to int64, weights []weight) {
	for from < to {
		day, until := days.at(from)
		cut := min(until, to)
		share(cut-from, weights, func(lang string, seconds int64) {
			s.Seconds[DayLang{day, lang}] += seconds
		})
		from = cut
	}
}

// count sums keystrokes and lines, and finds the minute with the most keystrokes.
func (s *Session) count() {
	minute, inMinute := int64(0), int64(-1)
	s.PeakCount = -1
	flush := func() {
		if inMinute > s.PeakCount {
			s.PeakMinute, s.PeakCount = minute, inMinute
		}
	}
	for i := range s.Events {
		e := &s.Events[i]
		s.Keystrokes += int64(e.Keystrokes)
		s.Lines += int64(e.Lines)
		if m := e.Second() - e.Second()%60; m != minute || inMinute < 0 {
			flush()
			minute, inMinute = m, 0
		}
		inMinute += int64(e.Keystrokes)
	}
	flush()
}

func topLang(seconds map[DayLang]int64) string {
	sums := make(map[string]int64, len(seconds))
	for k, n := range seconds {
		sums[k.Lang] += n
	}
	best, most := "", int64(-1)
	for lang, n := range sums {
		if n > most || n == most && lang < best {
			best, most = lang, n
		}
	}
	return best
}

// sortedDayLangs are the keys of m by day, then language: a fixed order for whatever is written from a map.
func sortedDayLangs(m map[DayLang]int64) []DayLang {
	keys := make([]DayLang, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b DayLang) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Lang, b.Lang))
	})
	return keys
}
