package tests

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/testenv"
)

// A publisher that is stopped anywhere between reading totals and writing them, and woken after another one published,
// never writes the older value: not after growth, a decrease, a removal, nor after Redis was emptied.
func TestTrialsStoppedPublisherWritesNothingOld(t *testing.T) {
	eachStop(t, "publisher", []string{"worker", "--once"}, map[string]func(f *fenceTrial){
		"growth":   (*fenceTrial).grow,
		"decrease": (*fenceTrial).shrink,
		"removal":  (*fenceTrial).remove,
		"emptied":  (*fenceTrial).empty,
	})
}

// A rebuild that is stopped anywhere, and woken after a publisher came by, never undoes with its swap what was published
// meanwhile.
func TestTrialsStoppedRebuildUndoesNothing(t *testing.T) {
	eachStop(t, "rebuild", []string{"leaderboard", "rebuild", "--period=alltime", "--lang=all"}, map[string]func(f *fenceTrial){
		"growth":  (*fenceTrial).grow,
		"removal": (*fenceTrial).remove,
		"emptied": (*fenceTrial).empty,
	})
}

// eachStop stops a process at each of its round trips, one after another, and makes a change meanwhile.
func eachStop(t *testing.T, name string, args []string, changes map[string]func(f *fenceTrial)) {
	alongside(t)
	for kind, change := range changes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSuite(t, name+" stopped at every round trip: "+kind, 0)
			at, stride := crashStride()
			points := 0
			for stopped := true; stopped; at += stride {
				stopped = false
				// A test of its own, whose servers go before the next one's come.
				t.Run(strconv.Itoa(at), func(t *testing.T) {
					var found tally
					if found, stopped = newFenceTrial(t).run(at, change, args...); stopped {
						s.add(found)
						points++
					}
				})
			}
			require.Positive(t, points)
			t.Logf("stopped at %d points, the process made fewer than %d round trips", points, at)
		})
	}
}

// fenceTrial has a user on the boards with two sessions, who is pending at a raised version, and another one who stays.
type fenceTrial struct {
	*scene
	base string
	user createdUser
	id   uuid.UUID
}

func newFenceTrial(t *testing.T) *fenceTrial {
	t.Helper()
	s := sceneOf(&stack{t: t, database: testenv.PostgresURL(t), rdb: testenv.OwnRedis(t).URL()})
	base, _ := s.serve("--no-aggregate")
	f := &fenceTrial{scene: s, base: base, user: s.account("mover", "UTC")}
	f.id = uuid.MustParse(f.user.ID)
	s.twoSessions(f.id)
	s.onWholeBoards(s.user())
	s.exec(`UPDATE users SET version = version + 1`)
	s.exec(`INSERT INTO outbox SELECT id, version FROM users`)
	return f
}

// run stops a command at a round trip, makes the change, and wakes the command. stopped is false when the command ended
// before that round trip.
func (f *fenceTrial) run(at int, change func(*fenceTrial), args ...string) (found tally, stopped bool) {
	fragile, crash := f.fragile(at, false)
	crash.resume = make(chan struct{})
	cmd := fragile.command(context.WithoutCancel(f.t.Context()), args...)
	reached := make(chan struct{})
	crash.kill = func() {
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		close(reached)
	}
	crash.mu.Lock() // until the process is known
	p := start(f.t, cmd)
	crash.mu.Unlock()
	select {
	case <-p.done:
		require.NoError(f.t, p.err)
		close(crash.resume)
		return tally{}, false
	case <-reached:
	}
	change(f)
	found.Drift += f.drift()
	_ = cmd.Process.Signal(syscall.SIGCONT) // unless it has ended
	close(crash.resume)
	<-p.done // it may have failed: its connections stood still
	found.Drift += f.drift()
	f.workerOnce()
	found.Drift += f.drift()
	found.add(f.afterCrash()) // the boards that nobody has asked for
	return found, true
}

// drift is by how many seconds the all-time board is not the total of everybody, whether Redis or Postgres answers.
func (f *fenceTrial) drift() int64 {
	f.t.Helper()
	var total, shown int64
	for _, r := range rows[struct{ Seconds int64 }](f.t, f.pool, `SELECT seconds FROM totals WHERE period = 'alltime' AND lang = ''`) {
		total += r.Seconds
	}
	_, answer := call(f.t, http.MethodGet, f.base+"/v1/leaderboard?period=alltime", "", "")
	var board struct {
		Entries []struct {
			Seconds int64 `json:"duration_s"`
		}
	}
	require.NoError(f.t, json.Unmarshal([]byte(answer), &board), answer)
	for _, e := range board.Entries {
		shown += e.Seconds
	}
	return abs(total - shown)
}

func (f *fenceTrial) grow() {
	at := hoursAgo(3)
	upload(f.t, f.base, f.user, time.Unix(at, 0))
	f.seconds[f.id] = append(f.seconds[f.id], at)
	f.workerOnce()
}

func (f *fenceTrial) shrink() {
	status, answer := call(f.t, http.MethodDelete, f.base+"/v1/sessions/"+f.sessionIDs(f.id)[0].String(), f.user.Token, "")
	require.Equal(f.t, 204, status, answer)
	f.forgetFirstSession(f.id)
}

func (f *fenceTrial) remove() {
	status, answer := call(f.t, http.MethodDelete, f.base+"/v1/me", f.user.Token, "")
	require.Equal(f.t, 204, status, answer)
	delete(f.seconds, f.id)
}

func (f *fenceTrial) empty() {
	require.NoError(f.t, f.scene.rdb.FlushAll(f.t.Context()).Err())
	f.grow()
}
