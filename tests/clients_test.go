package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
)

// How long an answer may take: the server's own bounds (httpapi.Config), and what a busy machine adds. Clients give up
// after 15 s.
const (
	uploadWithin = 8*time.Second + time.Second
	readWithin   = 10*time.Second + time.Second
	patience     = 15 * time.Second
)

const (
	uploaders = 6
	readers   = 2
	// clientPause is the time between two requests of a client, and retryPause that after one that was refused.
	clientPause, retryPause = 20 * time.Millisecond, 100 * time.Millisecond
	// uploadFor is how long a client goes on with one upload before the test takes it for lost.
	uploadFor = time.Minute
)

// clients upload and read as the real ones do: a batch is sent again, as it is, until it was acknowledged.
type clients struct {
	s     *scene
	base  string
	users []createdUser
	http  *http.Client
	must  atomic.Bool // all requests must succeed: what fails is nothing that they need

	uploads, reads, refused, wrong atomic.Int64
	slowest                        atomic.Int64 // ns

	mu     sync.Mutex
	events map[uuid.UUID]int64 // acknowledged
}

func newClients(s *scene) *clients {
	c := &clients{s: s, http: &http.Client{Timeout: patience, Transport: &http.Transport{}}, events: map[uuid.UUID]int64{}}
	for i := range uploaders {
		c.users = append(c.users, s.account(fmt.Sprintf("client-%d", i), "Europe/Berlin"))
	}
	s.t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// warmUp has each user upload once, so that all are on the boards, and has each kind of request answered.
func (c *clients) warmUp() {
	c.s.t.Helper()
	c.must.Store(true)
	defer c.must.Store(false)
	for _, u := range c.users {
		c.upload(c.s.t.Context(), u)
	}
	require.Zero(c.s.t, c.wrong.Swap(0))
}

// start sets the clients to work. stop lets each come to the end of what it is at, which for an upload is that it was
// acknowledged, and returns what went wrong.
func (c *clients) start() (stop func() tally) {
	ctx, cancel := context.WithCancel(c.s.t.Context())
	var g sync.WaitGroup
	for _, u := range c.users {
		g.Go(func() {
			for clock.Sleep(ctx, clientPause) == nil {
				c.upload(context.WithoutCancel(ctx), u)
			}
		})
	}
	for i := range readers {
		g.Go(func() {
			for n := i; clock.Sleep(ctx, clientPause) == nil; n++ {
				c.read(context.WithoutCancel(ctx), n)
			}
		})
	}
	return func() tally {
		cancel()
		g.Wait()
		return tally{Errors: c.wrong.Swap(0)}
	}
}

// upload sends a few minutes of some day of the last weeks until they are acknowledged.
func (c *clients) upload(ctx context.Context, u createdUser) {
	ctx, cancel := context.WithTimeout(ctx, uploadFor)
	defer cancel()
	first := clock.System{}.Now().Add(-25*24*time.Hour).Unix() + rand.Int64N(24*24*3600) //nolint:gosec // any will do
	var events []string
	var seconds []int64
	for i := range 1 + rand.Int64N(3) { //nolint:gosec // any will do
		seconds = append(seconds, first+i*minute)
		events = append(events, fmt.Sprintf(`{"id":"%s","ts":%d,"lang":"go","keystrokes":1,"lines":1}`, uuid.NewString(), (first+i*minute)*1000))
	}
	body := `{"events":[` + strings.Join(events, ",") + `]}`
	for {
		if status, _ := c.send(ctx, http.MethodPost, "/v1/ingest", u.Token, body, uploadWithin, http.StatusAccepted); status == http.StatusAccepted {
			break
		}
		if clock.Sleep(ctx, retryPause) != nil {
			c.fault("an upload was not acknowledged within %v", uploadFor)
			return
		}
	}
	c.uploads.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	id := uuid.MustParse(u.ID)
	c.s.seconds[id] = append(c.s.seconds[id], seconds...)
	c.events[id] += int64(len(seconds))
}

// read asks for the n-th of several things. A board that is shown must be whole.
func (c *clients) read(ctx context.Context, n int) {
	paths := []string{"/v1/leaderboard?period=alltime", "/v1/leaderboard?period=alltime&around=me", "/v1/me", "/v1/sessions?limit=5"}
	path := paths[n%len(paths)]
	status, answer := c.send(ctx, http.MethodGet, path, c.users[n/len(paths)%len(c.users)].Token, "", readWithin, http.StatusOK)
	c.reads.Add(1)
	if status != http.StatusOK || n%len(paths) > 1 {
		return
	}
	var board struct{ Entries []struct{} }
	if err := json.Unmarshal([]byte(answer), &board); err != nil || len(board.Entries) != len(c.users) {
		c.fault("%s is not whole: %s", path, answer)
	}
}

// send sends a request once and judges the answer: it must come in time and say want, or, where it may be refused, 503.
func (c *clients) send(
	ctx context.Context, method, path, token, body string, within time.Duration, want int,
) (status int, answer string) {
	began := clock.System{}.Now()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.fault("%v", err)
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := c.http.Do(req)
	if err == nil {
		var text []byte
		text, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
		status, answer = res.StatusCode, string(text)
	}
	took := clock.System{}.Now().Sub(began)
	for old := c.slowest.Load(); int64(took) > old && !c.slowest.CompareAndSwap(old, int64(took)); old = c.slowest.Load() {
	}
	switch {
	case err != nil:
		c.fault("%s %s was not answered, after %v: %v", method, path, took, err)
	case took > within:
		c.fault("%s %s took %v", method, path, took)
	case status == want:
	case status == http.StatusServiceUnavailable && !c.must.Load():
		c.refused.Add(1)
	default:
		c.fault("%s %s: %d %s", method, path, status, answer)
	}
	return status, answer
}

// fault books an error, and tells of the first few.
func (c *clients) fault(format string, args ...any) {
	if c.wrong.Add(1) <= 5 {
		c.s.t.Errorf(format, args...)
	}
}

// counted compares how many events each user's sessions have with how many were acknowledged.
func (c *clients) counted() (found tally) {
	c.s.t.Helper()
	for _, r := range rows[struct {
		User   uuid.UUID
		Events int64
	}](c.s.t, c.s.pool, `SELECT user_id, sum(events)::bigint FROM sessions GROUP BY 1`) {
		found.Duplicates += max(0, r.Events-c.events[r.User])
		found.Lost += max(0, c.events[r.User]-r.Events)
	}
	return found
}
