package tests

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
)

// Every round trip of a process to Postgres and Redis is a point at which it may die, before it is sent or after it was
// answered. A sample takes every so many-th point, from a start that moves with each hour.
func crashStride() (start, stride int) {
	if scale() > 0 {
		return 1, max(1, int(math.Round(1/scale())))
	}
	const every = 9
	return 1 + clock.System{}.Now().Hour()%every, every
}

// crashTrialFunc runs a process that dies at a point, lets others go on, and compares. killed is false when the process
// came to its end before the point.
type crashTrialFunc func(t *testing.T, at int, after bool) (found tally, killed bool)

// eachCrashPoint runs trial at point after point until the process lives.
func eachCrashPoint(t *testing.T, name string, trial crashTrialFunc) {
	alongside(t)
	s := newSuite(t, name+" killed at every round trip", 0)
	for _, after := range []bool{false, true} {
		t.Run(map[bool]string{false: "before", true: "after"}[after], func(t *testing.T) {
			t.Parallel()
			at, stride := crashStride()
			points := 0
			for killed := true; killed; at += stride {
				killed = false
				// A test of its own, whose database is dropped before the next one's is made.
				t.Run(strconv.Itoa(at), func(t *testing.T) {
					var found tally
					found, killed = trial(t, at, after)
					s.add(found)
				})
				if killed {
					points++
				}
			}
			require.Positive(t, points)
			t.Logf("%d crash points, the process made fewer than %d round trips", points, at)
		})
	}
}

// fragile is a stack whose next process dies at a crash point.
func (s *stack) fragile(at int, after bool) (*stack, *crashPoint) {
	c := &crashPoint{at: at, after: after}
	return &stack{t: s.t, database: c.through(s.t, s.database), rdb: c.through(s.t, s.rdb)}, c
}

// runUntilKilled runs a command that dies at a point. killed is false when it came to its end before.
func (s *stack) runUntilKilled(at int, after bool, args ...string) (killed bool) {
	s.t.Helper()
	fragile, crash := s.fragile(at, after)
	cmd := fragile.command(context.WithoutCancel(s.t.Context()), args...)
	crash.kill = func() { _ = cmd.Process.Kill() }
	crash.mu.Lock() // until the process is known
	err := cmd.Start()
	crash.mu.Unlock()
	require.NoError(s.t, err)
	err = cmd.Wait()
	crash.mu.Lock()
	defer crash.mu.Unlock()
	if !crash.fired {
		require.NoError(s.t, err)
	}
	return crash.fired
}

// begin counts anew, where only what happens once a server serves is to be interrupted.
func (c *crashPoint) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onceServing > 0 {
		c.trips, c.at = 0, c.onceServing
	}
}

// settle runs cycles until no user was skipped: Postgres may take a moment to notice that a process is gone, and its
// transaction holds its user until then.
func (s *stack) settle() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		stats := s.workerOnce()
		require.Zero(s.t, stats.Aggregate.Failed)
		return stats.Aggregate.Skipped == 0 && stats.Aggregate.Retried == 0
	}, time.Minute, 20*time.Millisecond)
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := store.Open(t.Context(), url, store.Options{AppName: "test"})
	require.NoError(t, err)
	return pool
}

func TestTrialsWorkerKilledAtEveryRoundTrip(t *testing.T) {
	eachCrashPoint(t, "worker", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newScene(t)
		users := []uuid.UUID{s.user(), s.user(), s.user(), s.user()}
		s.onWholeBoards(users...)
		for i, id := range users {
			first := hoursAgo(3)
			s.hot(id, first, first+int64(i)*minute)
		}
		killed := s.runUntilKilled(at, after, "worker", "--once")
		return s.afterCrash(), killed
	})
}

// An upload is sent again until it is answered, as the clients do, through a server that dies once on the way.
func TestTrialsServerKilledAtEveryRoundTripOfAnUpload(t *testing.T) {
	eachCrashPoint(t, "server that takes an upload", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newScene(t)
		user := s.account("victim", "UTC")
		id := uuid.MustParse(user.ID)
		s.onWholeBoards(id)
		var events []string
		for i, first := int64(0), hoursAgo(2); i < 10; i++ {
			events = append(events, fmt.Sprintf(`{"id":"%s","ts":%d,"lang":"go","keystrokes":5,"lines":1}`, uuid.NewString(), (first+i*minute)*1000))
			s.seconds[id] = append(s.seconds[id], first+i*minute)
		}
		body := `{"events":[` + strings.Join(events, ",") + `]}`
		fragile, crash := s.fragile(at, after)
		killed, status := fragile.requestThrough(crash, http.MethodPost, "/v1/ingest", user.Token, body)
		if status == http.StatusAccepted {
			require.Equal(t, int64(10), rows[struct{ N int64 }](t, s.pool, `SELECT count(*) FROM events`)[0].N, "a 202 means committed")
		}
		if killed {
			base, _ := s.serve("--no-aggregate")
			status, answer := call(t, http.MethodPost, base+"/v1/ingest", user.Token, body)
			require.Equal(t, 202, status, answer)
		}
		return s.afterCrash(), killed
	})
}

// A delete is sent again until it is answered: it is done, or there is nothing left to delete.
func TestTrialsServerKilledAtEveryRoundTripOfADelete(t *testing.T) {
	eachCrashPoint(t, "server that deletes a session", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newScene(t)
		user := s.account("victim", "UTC")
		id := uuid.MustParse(user.ID)
		s.twoSessions(id)
		s.publish()
		doomed := s.sessionIDs(id)[0]
		path := "/v1/sessions/" + doomed.String()

		fragile, crash := s.fragile(at, after)
		killed, status := fragile.requestThrough(crash, http.MethodDelete, path, user.Token, "")
		if status == http.StatusNoContent {
			require.Zero(t, rows[struct{ N int64 }](t, s.pool, `SELECT count(*) FROM sessions WHERE id = $1`, doomed)[0].N)
		}
		if killed {
			base, _ := s.serve("--no-aggregate")
			status, answer := call(t, http.MethodDelete, base+path, user.Token, "")
			require.Contains(t, []int{204, 404}, status, answer)
		}
		s.forgetFirstSession(id)
		return s.afterCrash(), killed
	})
}

// requestThrough serves until the crash, and sends one request; the status is 0 when no answer came.
func (s *stack) requestThrough(crash *crashPoint, method, path, token, body string) (killed bool, status int) {
	s.t.Helper()
	cmd := s.command(context.WithoutCancel(s.t.Context()), "serve", "--listen=127.0.0.1:0", "--no-aggregate")
	crash.kill = func() { _ = cmd.Process.Kill() }
	crash.mu.Lock() // until the process is known
	p := start(s.t, cmd)
	crash.mu.Unlock()
	if line, ok := p.stderr.find("msg=serving", p.done); ok {
		_, rest, _ := strings.Cut(line, "address=")
		crash.begin()
		req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+strings.Fields(rest)[0]+path, strings.NewReader(body))
		require.NoError(s.t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			status = res.StatusCode
		}
	}
	crash.mu.Lock()
	killed = crash.fired
	crash.mu.Unlock()
	_ = cmd.Process.Kill()
	<-p.done
	return killed, status
}
