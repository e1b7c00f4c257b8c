package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/tests/model"
)

const (
	readTrials = 60
	readSample = 2
)

// readPlaces are zones at both ends of the day, with half hours, with clocks that change at midnight, and under old names.
var readPlaces = []zonePlace{
	{"UTC", nil},
	{"Pacific/Kiritimati", nil}, // +14
	{"Pacific/Pago_Pago", nil},  // -11
	{"Asia/Kathmandu", nil},     // +5:45
	{"Asia/Calcutta", nil},
	{"US/Pacific", []string{"2025-03-09T10:00:00Z", "2025-11-02T09:00:00Z"}},
	{"Europe/Berlin", []string{"2025-03-30T01:00:00Z", "2025-10-26T01:00:00Z"}},
	{"America/Sao_Paulo", []string{"2018-11-04T03:00:00Z", "2018-02-18T02:00:00Z"}},
	{"America/Havana", []string{"2024-03-10T05:00:00Z", "2024-11-03T05:00:00Z"}},
	{"Asia/Beirut", []string{"2024-03-30T22:00:00Z", "2024-10-26T21:00:00Z"}},
	{"America/Santiago", []string{"2024-09-08T04:00:00Z", "2024-04-07T03:00:00Z"}},
	{"Australia/Lord_Howe", []string{"2025-04-05T15:00:00Z", "2025-10-04T15:30:00Z"}},
}

// After random histories with late events, merges and deletes, every number of a user is the same wherever it is read: on
// the boards of each period, as the sum of the heatmap's days, on the profile, as the sum of sessions, and by the model.
func TestTrialsReads(t *testing.T) {
	alongside(t)
	n := scaled(readTrials, readSample)
	s := newSuite(t, "numbers that are read, compared with one another", n)
	l := newLane(t, s)
	for i := range n {
		s.add(newReading(t, l, uint64(i)).trial(nil))
	}
}

// A day, a number of sessions or an all-time total that is not the sum of the rest must show.
func TestTrialsReadsWithout(t *testing.T) {
	alongside(t)
	l := newLane(t, nil)
	for what, sql := range map[string]string{
		"day":   `UPDATE totals SET seconds = seconds + 1 WHERE period = 'day' AND lang = '' AND user_id = $1`,
		"total": `UPDATE totals SET seconds = seconds - 1 WHERE period = 'alltime' AND lang = '' AND user_id = $1`,
		"count": `UPDATE users SET session_count = session_count + 1 WHERE id = $1`,
	} {
		t.Run(what, func(t *testing.T) {
			s := newSuiteWithout(t, "the right "+what, "numbers that are read", 1)
			r := newReading(t, l, 99)
			s.add(r.trial(func() {
				_, err := r.pool.Exec(t.Context(), sql, r.readers[0].id)
				require.NoError(t, err)
			}))
		})
	}
}

// reader is a user whose numbers are read.
type reader struct {
	id            uuid.UUID
	handle, token string
	anchors       []int64
	sent          []model.Event
	model         *model.User
}

// reading is a trial: one user in each zone, and what became of them.
type reading struct {
	*lane
	t       *testing.T
	rand    *rand.Rand
	readers []*reader
	recaps  bool // the contract has them
	found   tally
}

func newReading(t *testing.T, l *lane, seed uint64) *reading {
	t.Helper()
	r := &reading{lane: l, t: t, rand: rand.New(rand.NewPCG(seed, 3))}
	_, err := l.pool.Exec(t.Context(), "TRUNCATE "+strings.Join(l.tables, ", "))
	require.NoError(t, err)
	require.NoError(t, l.rdb.FlushAll(t.Context()).Err())
	_, contract := call(t, http.MethodGet, l.base+"/openapi.yaml", "", "")
	r.recaps = strings.Contains(contract, "\n  /v1/recap:")
	for _, p := range readPlaces {
		u, err := account.Create(t.Context(), l.pool, account.NewUser{Handle: "r" + uuid.NewString()[:30], Zone: p.zone})
		require.NoError(t, err)
		one := &reader{id: u.ID, handle: u.Handle, token: u.Token, anchors: l.anchors(p), model: model.NewUser(p.zone)}
		if r.rand.IntN(3) == 0 { // moved in the past
			from, to := one.anchors[r.rand.IntN(len(one.anchors))], readPlaces[r.rand.IntN(len(readPlaces))].zone
			_, err := l.pool.Exec(t.Context(), `INSERT INTO user_zones VALUES ($1, $2, $3)`, u.ID, from, to)
			require.NoError(t, err)
			one.model.SetZone(from, to)
		}
		r.readers = append(r.readers, one)
	}
	return r
}

// trial makes a history and compares what is read of it, after spoil, which may be nil. Then it looks at the present.
func (r *reading) trial(spoil func()) tally {
	r.t.Helper()
	for range 4 {
		for _, u := range r.readers {
			r.upload(u)
		}
		r.cycle(nil)
		r.publishAll() // a delete whose boards are not there asks to come again, and then finds nothing
		for _, u := range r.readers {
			if r.rand.IntN(3) == 0 {
				r.deleteSession(u)
			}
		}
	}
	r.mode(r.readers[r.rand.IntN(4)], model.Summary)
	r.mode(r.readers[4+r.rand.IntN(8)], model.Off)
	r.cycle(nil)
	r.publishAll()
	if spoil != nil {
		spoil()
	}
	for _, u := range r.readers {
		r.compare(u)
	}
	if spoil == nil {
		r.present()
	}
	return r.found
}

// upload sends a run around an anchor, and some late events beside, in and between those that were sent.
func (r *reading) upload(u *reader) {
	r.t.Helper()
	at := u.anchors[r.rand.IntN(len(u.anchors))] + r.rand.Int64N(8000) - 4000
	var batch []model.Event
	add := func(second int64) {
		e := model.Event{
			ID: uuid.NewString(), MS: second*1000 + r.rand.Int64N(1000), Lang: []string{"go", "c++", "python"}[r.rand.IntN(3)],
			Keystrokes: r.rand.Int64N(4), Lines: r.rand.Int64N(9) - 4,
		}
		if second <= r.today.Unix()-settledAge {
			batch = append(batch, e)
		}
	}
	for range 1 + r.rand.IntN(12) {
		add(at)
		at += []int64{0, 1, 59, 300, 899, 900, 901, 4000}[r.rand.IntN(8)]
	}
	for range r.rand.IntN(6) {
		if len(u.sent) > 0 {
			of := u.sent[r.rand.IntN(len(u.sent))]
			add(of.Second() + []int64{-901, -900, -450, 1, 450, 900, 901}[r.rand.IntN(7)])
		}
	}
	if len(u.sent) > 0 { // and one that was sent before
		batch = append(batch, u.sent[r.rand.IntN(len(u.sent))])
	}
	r.send(u, batch)
}

func (r *reading) send(u *reader, batch []model.Event) {
	r.t.Helper()
	if len(batch) == 0 {
		return
	}
	var events []string
	for _, e := range batch {
		events = append(events, fmt.Sprintf(`{"id":%q,"ts":%d,"lang":%q,"keystrokes":%d,"lines":%d,"file":"a.go"}`,
			e.ID, e.MS, e.Lang, e.Keystrokes, e.Lines))
		u.model.Upload(e)
		u.sent = append(u.sent, e)
	}
	status, answer := call(r.t, http.MethodPost, r.base+"/v1/ingest", u.token, `{"events":[`+strings.Join(events, ",")+`]}`)
	require.Equal(r.t, http.StatusAccepted, status, answer)
}

func (r *reading) cycle(now *time.Time) {
	r.t.Helper()
	stats, err := r.worker.aggregator.Cycle(r.t.Context(), now)
	require.NoError(r.t, err)
	require.Zero(r.t, stats.Skipped+stats.Failed+stats.Retried)
}

func (r *reading) publishAll() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		stats, err := r.worker.publisher.Cycle(context.WithoutCancel(r.t.Context()), nil)
		return err == nil && stats.Left == 0
	}, time.Minute, 10*time.Millisecond)
}

// deleteSession deletes one of a user's sessions, whichever comes first on a page.
func (r *reading) deleteSession(u *reader) {
	r.t.Helper()
	page := r.page(u.token, "/v1/sessions?limit=10", "")
	if len(page.Sessions) == 0 {
		return
	}
	doomed := page.Sessions[r.rand.IntN(len(page.Sessions))]
	status, answer := call(r.t, http.MethodDelete, r.base+"/v1/sessions/"+doomed.ID, u.token, "")
	require.Equal(r.t, http.StatusNoContent, status, answer)
	u.model.Delete(model.Stretch{First: doomed.StartedAt.Unix() + activity.WindowSeconds, Last: doomed.EndedAt.Unix()})
}

func (r *reading) mode(u *reader, m model.Mode) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { // 503 is an answer that asks to come again
		status, answer := call(r.t, http.MethodPatch, r.base+"/v1/me", u.token, fmt.Sprintf(`{"privacy":%q}`, m))
		require.Contains(r.t, []int{http.StatusOK, http.StatusServiceUnavailable}, status, answer)
		return status == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
	u.model.SetMode(m)
}

// readPage is a page of sessions.
type readPage struct {
	Sessions []struct {
		ID        string
		StartedAt time.Time `json:"started_at"`
		EndedAt   time.Time `json:"ended_at"`
		Duration  int64     `json:"duration_s"`
	}
	Next *string `json:"next_cursor"`
}

func (r *reading) page(token, path, cursor string) (p readPage) {
	r.t.Helper()
	if cursor != "" {
		path += "&cursor=" + cursor
	}
	r.get(token, path, &p)
	return p
}

// get reads an answer into v.
func (r *reading) get(token, path string, v any) {
	r.t.Helper()
	status, answer := call(r.t, http.MethodGet, r.base+path, token, "")
	require.Equal(r.t, http.StatusOK, status, "%s: %s", path, answer)
	require.NoError(r.t, json.Unmarshal([]byte(answer), v), answer)
}

// present has all users type now, and compares what they are told of today with what the heatmap says when all is finalized.
func (r *reading) present() {
	r.t.Helper()
	now := clock.System{}.Now().Unix()
	type today struct {
		Date      string
		Duration  int64 `json:"duration_s"`
		Finalized int64 `json:"finalized_s"`
	}
	told := map[*reader]today{}
	for _, u := range r.readers {
		var batch []model.Event
		for range 1 + r.rand.IntN(5) {
			at := now - r.rand.Int64N(3600)
			batch = append(batch, model.Event{ID: uuid.NewString(), MS: at * 1000, Lang: "go", Keystrokes: 1})
		}
		r.send(u, batch)
		var t today
		r.get(u.token, "/v1/me/today", &t)
		told[u] = t
	}
	later := clock.System{}.Now().Add(time.Hour)
	r.cycle(&later)
	for u, t := range told {
		days := r.heatmap(u.token, "from="+t.Date+"&to="+t.Date)
		r.same(u, "today before and after it is finalized", t.Duration, days.Duration)
	}
}
