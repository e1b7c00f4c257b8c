package tests

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/commma/commma/tests/model"
)

// language is a name as an editor sends it, and the key that it must become.
type language struct {
	name   string
	key    string
	listed bool
}

var modelLanguages = []language{
	{"go", "go", true}, {" Go ", "go", true}, {"TypeScript", "typescript", true}, {"js", "javascript", true},
	{"C", "c", true}, {"c++", "c++", true}, {"C#", "c#", true}, {"Our  DSL", "our dsl", false}, {"", model.Unknown, false},
}

// modelBoardLanguages are those of them that have boards. All the others that have some are asked for in vain at each build
// of all boards, which took an eighth of the time of a sequence.
func modelBoardLanguages() (keys []string) {
	for _, l := range modelLanguages {
		if l.listed && !slices.Contains(keys, l.key) {
			keys = append(keys, l.key)
		}
	}
	return keys
}

// zonePlace is a zone, and instants at which its date or its clocks change.
type zonePlace struct {
	zone    string
	anchors []string
}

var modelPlaces = []zonePlace{
	{"UTC", nil},
	{"Europe/Berlin", []string{"2025-03-30T01:00:00Z", "2025-10-26T01:00:00Z", "2025-10-25T22:00:00Z"}},
	{"America/Sao_Paulo", []string{"2018-11-04T03:00:00Z", "2018-02-18T02:00:00Z", "2018-02-18T03:00:00Z"}},
	{"America/Havana", []string{"2024-03-10T05:00:00Z", "2024-11-03T05:00:00Z", "2024-11-03T04:00:00Z"}},
	{"Asia/Beirut", []string{"2024-03-30T22:00:00Z", "2024-10-26T21:00:00Z", "2024-10-26T22:00:00Z"}},
	{"Africa/Cairo", []string{"2024-04-25T22:00:00Z", "2024-10-31T21:00:00Z", "2024-10-31T22:00:00Z"}},
	{"America/Santiago", []string{"2024-09-08T04:00:00Z", "2024-04-07T03:00:00Z", "2024-04-07T04:00:00Z"}},
	{"Australia/Lord_Howe", []string{"2025-04-05T15:00:00Z", "2025-10-04T15:30:00Z"}},
	{"America/St_Johns", []string{"2006-10-29T02:31:00Z", "2006-10-29T03:30:00Z"}},
	{"Pacific/Apia", []string{"2011-12-30T10:00:00Z"}},
	{"Pacific/Chatham", []string{"2025-04-05T14:00:00Z"}},
	{"Pacific/Kiritimati", nil},
	{"Pacific/Honolulu", nil},
	{"Asia/Kathmandu", nil},
}

func zoneNames() (out []string) {
	for _, p := range modelPlaces {
		out = append(out, p.zone)
	}
	return out
}

// anchors are the instants around which a user of a zone is active: where the rules of time have their edges.
func (l *lane) anchors(p zonePlace) (out []int64) {
	for _, a := range p.anchors {
		at, err := time.Parse(time.RFC3339, a)
		if err != nil {
			panic(err)
		}
		out = append(out, at.Unix())
	}
	loc, err := time.LoadLocation(p.zone)
	if err != nil {
		panic(err)
	}
	y, m, d := l.today.In(loc).Date()
	for _, daysBack := range []int{0, 1, 2, 3, 7, 8} {
		out = append(out, time.Date(y, m, d-daysBack, 0, 0, 0, 0, loc).Unix())
	}
	out = append(out, time.Date(y, m, 1, 0, 0, 0, 0, loc).Unix(), time.Date(y, m-1, 1, 0, 0, 0, 0, loc).Unix(), l.today.Unix()-7200)
	return out
}

// sent is an event as it is uploaded.
type sent struct {
	id                string
	ms                int64
	lang              language
	keystrokes, lines int64
	project, file     string // "" is absent
	keys              map[string]int64
}

func (e *sent) second() int64 { return e.ms / 1000 }

func (e *sent) json() map[string]any {
	m := map[string]any{"id": e.id, "ts": e.ms, "keystrokes": e.keystrokes, "lines": e.lines}
	for k, v := range map[string]string{"lang": e.lang.name, "project": e.project, "file": e.file} {
		if v != "" {
			m[k] = v
		}
	}
	if e.keys != nil {
		m["key_freq"] = e.keys
	}
	return m
}

// event is what the model is told of an upload by a user of a mode.
func (e *sent) event(mode model.Mode) model.Event {
	m := model.Event{ID: e.id, MS: e.ms, Lang: e.lang.key, Keystrokes: e.keystrokes, Lines: e.lines}
	if mode == model.Summary && !e.lang.listed {
		m.Lang = model.Unknown
	}
	if e.project != "" {
		m.Project = &e.project
	}
	if e.file != "" {
		m.File = &e.file
	}
	if e.keys != nil {
		text, _ := json.Marshal(e.keys) // of strings and integers: it cannot fail
		keys := string(text)
		m.Keys = &keys
	}
	return m
}

func batchBody(batch []sent) string {
	var events []any
	for i := range batch {
		events = append(events, batch[i].json())
	}
	text, _ := json.Marshal(map[string]any{"events": events})
	return string(text)
}

// modelIDs are the ids of all users' events: different users have the same ones.
var modelIDs = func() (out []string) {
	for i := range 400 {
		out = append(out, uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(i >> 8), byte(i)}).String())
	}
	return out
}()

var (
	drawGap        = rapid.SampledFrom([]int64{0, 0, 1, 7, 59, 60, 61, 300, 899, 900, 901, 1800, 5000})
	drawOffset     = rapid.SampledFrom([]int64{-1801, -901, -900, -899, -450, -1, 0, 1, 450, 899, 900, 901, 1801})
	drawKeystrokes = rapid.SampledFrom([]int64{0, 0, 1, 2, 3, 7, 100, 1_000_000})
	drawMS         = rapid.SampledFrom([]int64{0, 0, 1, 500, 999})
	drawText       = rapid.SampledFrom([]string{"", "", "a", "b/c.go"})
	drawKeys       = rapid.SampledFrom([]map[string]int64{nil, nil, {"a": 1}, {"a": 2, "Enter": 1}})
)

// below draws each of 0 to n-1, n at most 32, about as often as the others. rapid's own numbers are mostly small ones.
func below(n int) *rapid.Generator[int] {
	return rapid.Custom(func(t *rapid.T) int {
		v := 0
		for range 8 {
			v *= 2
			if rapid.Bool().Draw(t, "bit") {
				v++
			}
		}
		return v % n
	})
}

// oneIn is true once in n times.
func (s *sequence) oneIn(n int, what string) bool { return below(n).Draw(s.T, what) == n-1 }

// drawEvent is an event of a user at a second.
func (s *sequence) drawEvent(u *modelUser, second int64) sent {
	e := sent{id: modelIDs[len(u.sent)%len(modelIDs)], ms: second*1000 + drawMS.Draw(s.T, "ms")}
	s.drawContent(&e)
	return e
}

func (s *sequence) drawContent(e *sent) {
	e.lang = rapid.SampledFrom(modelLanguages).Draw(s.T, "language")
	e.keystrokes = drawKeystrokes.Draw(s.T, "keystrokes")
	e.lines = rapid.Int64Range(-5, 5).Draw(s.T, "lines")
	e.project, e.file, e.keys = drawText.Draw(s.T, "project"), drawText.Draw(s.T, "file"), drawKeys.Draw(s.T, "keys")
}

// drawEvents is events of a user of one kind: a new run around one of the user's anchors, events beside, in or between
// those that were sent, the same once more, or the same id and instant with another content.
func (s *sequence) drawEvents(u *modelUser) (out []sent) {
	kinds := []string{"run", "run", "run", "late", "late", "late", "again", "differing", "differing", "same id", "day"}
	kind := kinds[below(len(kinds)).Draw(s.T, "kind")]
	if len(u.sent) == 0 {
		kind = "run"
	}
	add := func(e sent) {
		if e.second() <= s.today.Unix()-settledAge {
			out = append(out, e)
			u.sent = append(u.sent, e)
		}
	}
	switch kind {
	case "run":
		at := rapid.SampledFrom(u.anchors).Draw(s.T, "anchor") + rapid.Int64Range(-4000, 4000).Draw(s.T, "offset")
		for range rapid.IntRange(1, 10).Draw(s.T, "n") {
			add(s.drawEvent(u, at))
			at += drawGap.Draw(s.T, "gap")
		}
		return out
	case "day": // a run of more than 24 hours
		at := rapid.SampledFrom(u.anchors).Draw(s.T, "anchor") - 43200
		gap := rapid.Int64Range(870, 900).Draw(s.T, "gap")
		e := s.drawEvent(u, at)
		for i := range 102 {
			e.id, e.ms = modelIDs[(len(u.sent))%len(modelIDs)], (at+int64(i)*gap)*1000
			add(e)
		}
		return out
	}
	for range rapid.IntRange(1, 6).Draw(s.T, "n") {
		e := rapid.SampledFrom(u.sent).Draw(s.T, "of")
		switch kind {
		case "late":
			e = s.drawEvent(u, e.second()+drawOffset.Draw(s.T, "away"))
		case "differing":
			s.drawContent(&e)
		case "same id":
			e.ms += 1000 * drawOffset.Draw(s.T, "away")
		}
		add(e)
	}
	return out
}

// settledAge keeps events away from the present, in seconds: whether they have ended must not hang on how fast the machine is.
const settledAge = 1500
