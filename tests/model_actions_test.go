package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/tests/model"
)

// modelUser is a user as the program and as the model know them.
type modelUser struct {
	id      uuid.UUID
	token   string
	anchors []int64
	model   *model.User
	lineage *model.Lineage
	sent    []sent
	deleted bool                       // a session of the user's, at some time
	boards  map[leaderboard.Board]bool // that the user was ever to be on
}

type modelAction struct {
	name string
	do   func(*sequence)
}

// modelActions are drawn from; what stands more often is done more often.
var modelActions = []modelAction{
	{"upload", (*sequence).upload}, {"upload", (*sequence).upload}, {"upload", (*sequence).upload},
	{"upload", (*sequence).upload}, {"upload", (*sequence).upload},
	{"cycle", (*sequence).cycle}, {"cycle", (*sequence).cycle}, {"finalize", (*sequence).finalize},
	{"two cycles", (*sequence).twoCycles}, {"cycle and upload", (*sequence).cycleAndUpload},
	{"killed cycle", (*sequence).killedCycle}, {"killed cycle", (*sequence).killedCycle},
	{"publish", (*sequence).publish}, {"killed publish", (*sequence).killedPublish},
	{"delete session", (*sequence).deleteSession}, {"delete session", (*sequence).deleteSession},
	{"mode", (*sequence).mode}, {"mode and upload", (*sequence).modeAndUpload}, {"zone", (*sequence).zone},
	{"flush", (*sequence).flush}, {"erase", (*sequence).eraseOne}, {"kill server", (*sequence).killOnUpload},
	{"prune", (*sequence).prune},
}

// setUp makes users, some with zones that changed in their past.
func (s *sequence) setUp() {
	for range rapid.SampledFrom([]int{1, 1, 2}).Draw(s.T, "users") {
		p := rapid.SampledFrom(modelPlaces).Draw(s.T, "zone")
		created, err := account.Create(s.Context(), s.pool, account.NewUser{Handle: "u" + uuid.NewString()[:30], Zone: p.zone})
		require.NoError(s, err)
		u := &modelUser{id: created.ID, token: created.Token, anchors: s.lane.anchors(p), model: model.NewUser(p.zone),
			lineage: model.NewLineage(), boards: map[leaderboard.Board]bool{}}
		s.users = append(s.users, u)
		past := map[int64]bool{}
		for range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(s.T, "moves") {
			from := rapid.SampledFrom(u.anchors).Draw(s.T, "moved at") + rapid.Int64Range(-2000, 2000).Draw(s.T, "moved")
			other := rapid.SampledFrom(modelPlaces).Draw(s.T, "moved to")
			if past[from] || from > s.today.Unix() {
				continue
			}
			past[from] = true
			_, err := s.pool.Exec(s.Context(), `INSERT INTO user_zones (user_id, from_s, zone) VALUES ($1, $2, $3)`, u.id, from, other.zone)
			require.NoError(s, err)
			u.model.SetZone(from, other.zone)
			u.anchors = append(u.anchors, from)
		}
	}
}

func (s *sequence) drawUser() *modelUser { return rapid.SampledFrom(s.users).Draw(s.T, "user") }

// send sends a request until it is answered, as clients do: 503 is an answer that asks to come again.
func (s *sequence) send(u *modelUser, method, path, body string) (status int, answer string) {
	s.Helper()
	s.until(func() bool {
		var err error
		status, answer, err = s.sendOnce(s.Context(), u, method, path, body)
		require.NoError(s, err)
		return status != http.StatusServiceUnavailable
	})
	return status, answer
}

// sendDelete sends a delete until it is answered. What was deleted may not be shown so within its time, which is a 503 too: then
// it is missing when it is sent again.
func (s *sequence) sendDelete(u *modelUser, path string, want, missing int) {
	s.Helper()
	tries := 0
	s.until(func() bool {
		tries++
		status, answer, err := s.sendOnce(s.Context(), u, http.MethodDelete, path, "")
		require.NoError(s, err)
		if status == http.StatusServiceUnavailable {
			return false
		}
		require.True(s, status == want || tries > 1 && status == missing, "%d %s", status, answer)
		return true
	})
}

func (s *sequence) sendOnce(ctx context.Context, u *modelUser, method, path, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+u.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// drawBatch is a batch in any order, with some events twice.
func (s *sequence) drawBatch(u *modelUser) []sent {
	events := s.drawEvents(u)
	if len(events) > 1 && rapid.Bool().Draw(s.T, "shuffled") {
		events = rapid.Permutation(events).Draw(s.T, "order")
	}
	if len(events) > 0 && s.oneIn(4, "doubled") {
		events = append(events, events[0], events[len(events)/2])
	}
	return events
}

func (s *sequence) upload() { s.uploadTo(s.drawUser()) }

func (s *sequence) uploadTo(u *modelUser) {
	events := s.drawBatch(u)
	for len(events) > 0 {
		n := rapid.IntRange(1, len(events)).Draw(s.T, "batch")
		s.uploadBatch(u, events[:n])
		events = events[n:]
	}
}

func (s *sequence) uploadBatch(u *modelUser, batch []sent) {
	status, answer := s.send(u, http.MethodPost, "/v1/ingest", batchBody(batch))
	s.took(u, batch, status, answer)
}

// took tells the model of an answered upload.
func (s *sequence) took(u *modelUser, batch []sent, status int, answer string) {
	if u.model.Gone() {
		require.Equal(s, http.StatusForbidden, status, answer)
		return
	}
	require.Equal(s, http.StatusAccepted, status, answer)
	var got struct {
		Received int
		Rejected int `json:"rejected_total"`
	}
	require.NoError(s, json.Unmarshal([]byte(answer), &got))
	accepted, tooOld := 0, 0
	for i := range batch {
		switch {
		case batch[i].second() < s.horizon:
			tooOld++
		case u.model.Upload(batch[i].event(u.model.Mode())):
			accepted++
		}
	}
	require.Equal(s, accepted, got.Received, answer)
	if u.model.Mode() != model.Off {
		require.Equal(s, tooOld, got.Rejected, answer)
	}
}

// drawNow is what replaces the clock for the decision what has ended: nil for the real one, after which everything has.
func (s *sequence) drawNow() *time.Time {
	u := s.drawUser()
	if len(u.sent) == 0 || !s.oneIn(3, "clock") {
		return nil
	}
	at := rapid.SampledFrom(u.sent).Draw(s.T, "now is after")
	now := time.Unix(at.second()+rapid.SampledFrom([]int64{0, 899, 900, 901, 86400}).Draw(s.T, "by"), 0)
	return &now
}

func (s *sequence) cycle() { s.cycles(s.drawNow(), s.worker) }

// cycles runs cycles at the same time until all have what they want.
func (s *sequence) cycles(now *time.Time, workers ...*modelWorker) {
	s.Helper()
	s.until(func() bool {
		var wg sync.WaitGroup
		var open, failed int
		var errs error
		var mu sync.Mutex
		for _, w := range workers {
			wg.Go(func() {
				stats, err := w.aggregator.Cycle(s.Context(), now)
				mu.Lock()
				defer mu.Unlock()
				errs = errors.Join(errs, err)
				open += stats.Skipped + stats.Retried
				failed += stats.Failed
			})
		}
		wg.Wait()
		require.NoError(s, errs)
		require.Zero(s, failed, "users whose data failed")
		return open == 0
	})
	s.observe(now, true, true)
}

// finalize takes one user only.
func (s *sequence) finalize() {
	u, now := s.drawUser(), s.drawNow()
	s.until(func() bool {
		res, err := s.worker.finalizer.Finalize(s.Context(), s.pool, u.id, now)
		require.NoError(s, err)
		return !res.Locked
	})
	s.observe(now, false, true)
}

func (s *sequence) twoCycles() {
	s.cycles(s.drawNow(), s.worker, newModelWorker(s.pool, s.lane.rdb, 2))
}

func (s *sequence) cycleAndUpload() {
	u := s.drawUser()
	batch := s.drawBatch(u)
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { _, err = s.worker.aggregator.Cycle(s.Context(), nil) })
	if len(batch) > 0 {
		s.uploadBatch(u, batch)
	}
	wg.Wait()
	require.NoError(s, err)
	s.observe(nil, false, false)
}

// killed runs something in a process that is cut off from its servers at a round trip, and is no more.
func (s *sequence) killed(do func(ctx context.Context, w *modelWorker)) {
	at, after := 1+below(32).Draw(s.T, "round trip"), rapid.Bool().Draw(s.T, "after its answer")
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	crash := &crashPoint{after: after, kill: cancel}
	pool, err := store.Open(ctx, crash.through(s, s.database), store.Options{AppName: "test"})
	require.NoError(s, err)
	defer pool.Close()
	rdb, err := redisconn.Open(ctx, crash.through(s, s.stack.rdb))
	require.NoError(s, err)
	defer func() { _ = rdb.Close() }()
	crash.mu.Lock()
	crash.at = crash.trips + at
	crash.mu.Unlock()
	do(ctx, newModelWorker(pool, rdb, 1))
}

func (s *sequence) killedCycle() {
	now := s.drawNow()
	s.killed(func(ctx context.Context, w *modelWorker) { _, _ = w.aggregator.Cycle(ctx, now) })
	s.freed()
	s.observe(now, false, true)
}

// freed waits until Postgres has noticed that a process is gone: its last transaction may still commit until then.
func (s *sequence) freed() {
	s.until(func() bool {
		var held int
		err := s.pool.QueryRow(s.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&held)
		require.NoError(s, err)
		return held == 0
	})
}

func (s *sequence) publish() {
	_, err := s.worker.publisher.Cycle(s.Context(), nil)
	require.NoError(s, err)
}

func (s *sequence) killedPublish() {
	s.killed(func(ctx context.Context, w *modelWorker) {
		_, err := w.publisher.Cycle(ctx, nil)
		s.builderDied = s.builderDied || err != nil
	})
}

func (s *sequence) flush() { require.NoError(s, s.lane.rdb.FlushAll(s.Context()).Err()) }

// deleteSession deletes a session by its id, or by one that it absorbed.
func (s *sequence) deleteSession() {
	s.buryBuilder()
	u := s.drawUser()
	if aliases := u.lineage.Aliases(); len(aliases) > 0 && s.oneIn(3, "alias") {
		alias := rapid.SampledFrom(aliases).Draw(s.T, "absorbed")
		status, answer := s.send(u, http.MethodDelete, "/v1/sessions/"+alias, "")
		require.Equal(s, http.StatusConflict, status, answer)
		require.Contains(s, answer, u.lineage.Heir(alias))
		return
	}
	if len(u.lineage.Live()) == 0 {
		s.cycles(nil, s.worker)
	}
	live := u.lineage.Live()
	if len(live) == 0 {
		return
	}
	at := live[rapid.IntRange(0, len(live)-1).Draw(s.T, "session")]
	s.note("delete %v", at.Stretch)
	s.sendDelete(u, "/v1/sessions/"+at.ID, http.StatusNoContent, http.StatusNotFound)
	u.deleted = true
	u.model.Delete(at.Stretch)
	u.lineage.Delete(at.ID)
	s.observe(nil, false, true)
	s.comparePlaces(u, nil)
	if rapid.Bool().Draw(s.T, "sent again") {
		s.uploadTo(u)
	}
}

func (s *sequence) mode() {
	s.buryBuilder()
	u := s.drawUser()
	s.setMode(u, rapid.SampledFrom([]model.Mode{model.Full, model.Summary, model.Off}).Draw(s.T, "mode"))
}

func (s *sequence) setMode(u *modelUser, m model.Mode) {
	if u.model.Gone() {
		return
	}
	s.note("mode %s", m)
	status, answer := s.send(u, http.MethodPatch, "/v1/me", fmt.Sprintf(`{"privacy":%q}`, m))
	require.Equal(s, http.StatusOK, status, answer)
	moved := m == model.Off || u.model.Mode() == model.Off
	u.model.SetMode(m)
	s.observe(nil, false, true) // who leaves is finalized
	if moved {
		s.comparePlaces(u, nil)
	}
}

// modeAndUpload has a user leave, or come back, while a batch is on its way: the answer says on which side it fell.
func (s *sequence) modeAndUpload() {
	s.buryBuilder()
	u := s.drawUser()
	batch := s.drawBatch(u)
	if u.model.Gone() || len(batch) == 0 {
		return
	}
	for i := range batch {
		if !batch[i].lang.listed { // a mode that was cached a moment ago may cost its name
			batch[i].lang = modelLanguages[0]
		}
	}
	to := model.Off
	if u.model.Mode() == model.Off {
		to = model.Full
	} else {
		s.setMode(u, model.Full)
	}
	var wg sync.WaitGroup
	var status int
	var answer string
	wg.Go(func() { status, answer = s.send(u, http.MethodPost, "/v1/ingest", batchBody(batch)) })
	changed, text := s.send(u, http.MethodPatch, "/v1/me", fmt.Sprintf(`{"privacy":%q}`, to))
	wg.Wait()
	require.Equal(s, http.StatusOK, changed, text)
	if dropped := strings.Contains(answer, `"received":0`); dropped == (to == model.Off) {
		u.model.SetMode(to)
		s.took(u, batch, status, answer)
	} else {
		s.took(u, batch, status, answer)
		u.model.SetMode(to)
	}
	s.observe(nil, false, true)
	s.comparePlaces(u, nil)
}

func (s *sequence) zone() {
	s.setZone(s.drawUser(), rapid.SampledFrom(zoneNames()).Draw(s.T, "zone"))
}

// setZone moves a user now. From which second that counts is Postgres's to say, within the time that the request took.
func (s *sequence) setZone(u *modelUser, zone string) {
	if u.model.Gone() {
		return
	}
	before := clock.System{}.Now().Unix()
	if u.model.Zone(before) == zone {
		return
	}
	status, answer := s.send(u, http.MethodPatch, "/v1/me", fmt.Sprintf(`{"timezone":%q}`, zone))
	require.Equal(s, http.StatusOK, status, answer)
	var from int64
	require.NoError(s, s.pool.QueryRow(s.Context(), `SELECT max(from_s) FROM user_zones WHERE user_id = $1`, u.id).Scan(&from))
	require.GreaterOrEqual(s, from, before)
	require.LessOrEqual(s, from, clock.System{}.Now().Unix())
	u.model.SetZone(from, zone)
}

func (s *sequence) eraseOne() {
	if s.oneIn(4, "really") {
		s.erase(s.drawUser())
	}
}

func (s *sequence) erase(u *modelUser) {
	s.buryBuilder()
	want := http.StatusNoContent
	if u.model.Gone() {
		want = http.StatusForbidden
	}
	s.sendDelete(u, "/v1/me", want, http.StatusForbidden)
	u.model.Erase()
	u.lineage = model.NewLineage()
	s.comparePlaces(u, nil)
}

// killOnUpload kills the server while an upload is on its way. The client hears nothing and sends the batch again.
func (s *sequence) killOnUpload() {
	if !s.oneIn(12, "really") {
		s.upload()
		return
	}
	u := s.drawUser()
	batch := s.drawBatch(u)
	if len(batch) == 0 {
		return
	}
	delay := time.Duration(rapid.IntRange(0, 4000).Draw(s.T, "after")) * time.Microsecond
	server := s.server
	timer := time.AfterFunc(delay, func() { _ = server.cmd.Process.Kill() })
	status, answer, err := s.sendOnce(s.Context(), u, http.MethodPost, "/v1/ingest", batchBody(batch))
	if !timer.Stop() || err != nil {
		s.killServer()
	}
	if err != nil || status == http.StatusServiceUnavailable {
		status, answer = s.send(u, http.MethodPost, "/v1/ingest", batchBody(batch))
	}
	s.took(u, batch, status, answer)
}
