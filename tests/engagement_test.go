package tests

import (
	"encoding/json"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
)

// foundCounts is the line of counters verify.
type foundCounts struct{ Sessions, Wrong, Missing, Kudos, Comments, Healed int64 }

// What people do to a session shows in the answer at once, and on the session within seconds; two servers, one session.
func TestEngagementShowsWithinSeconds(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	one, first := s.serve("--no-aggregate")
	two, _ := s.serve("--no-aggregate")
	owner := s.createUser("owner", "UTC")
	upload(t, one, owner, clock.System{}.Now().Add(-3*time.Hour))
	s.workerOnce()
	_, list := call(t, "GET", one+"/v1/sessions", owner.Token, "")
	var page struct {
		Sessions []struct {
			ID                             string
			Views, Shares, Kudos, Comments int64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(list), &page))
	path := "/v1/sessions/" + page.Sessions[0].ID
	for i, handle := range []string{"ada", "bob", "eve"} {
		u, base := s.createUser(handle, "UTC"), []string{one, two}[i%2]
		_, answer := call(t, "PUT", base+path+"/kudos", u.Token, "")
		require.JSONEq(t, `{"session_id":"`+page.Sessions[0].ID+`","given":true,"kudos":`+string(rune('1'+i))+`}`, answer)
		status, answer := call(t, "POST", base+path+"/comments", u.Token, `{"body":"well done"}`)
		require.Equal(t, 201, status, answer)
		_, answer = call(t, "POST", base+path+"/shares", u.Token, "")
		require.JSONEq(t, `{"recorded":true}`, answer)
	}
	status, answer := call(t, "PUT", one+path+"/kudos", owner.Token, "")
	require.Equal(t, 403, status, answer)
	require.Eventually(t, func() bool {
		_, list := call(t, "GET", one+"/v1/sessions", owner.Token, "")
		require.NoError(t, json.Unmarshal([]byte(list), &page))
		got := page.Sessions[0]
		return got.Kudos == 3 && got.Comments == 3 && got.Shares == 3
	}, 30*time.Second, 200*time.Millisecond)

	// A server that is told to stop flushes what it has armed.
	ada := s.createUser("ada2", "UTC")
	_, _ = call(t, "PUT", one+path+"/kudos", ada.Token, "")
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGTERM))
	<-first.done
	require.NoError(t, first.err)
	pool := openPool(t, s.database)
	defer pool.Close()
	require.Equal(t, int64(4), rows[struct{ N int64 }](t, pool, `SELECT kudos FROM session_counters`)[0].N)
}

func TestCountersVerifyCommand(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	base, _ := s.serve("--no-aggregate")
	owner, other := s.createUser("owner", "UTC"), s.createUser("other", "UTC")
	for _, u := range []createdUser{owner, other} {
		upload(t, base, u, clock.System{}.Now().Add(-3*time.Hour))
	}
	s.workerOnce()
	engage(t, base, owner, other)
	require.Equal(t, foundCounts{Sessions: 2}, runJSON[foundCounts](s, "counters", "verify"), "pending is not wrong")
	pool := openPool(t, s.database)
	defer pool.Close()
	_, err := pool.Exec(t.Context(), `UPDATE session_counters SET kudos = kudos + 4, comments = comments - 1`)
	require.NoError(t, err)

	out, err := s.command(t.Context(), "counters", "verify").Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, string(exit.Stderr), "counts are wrong and not healed")
	var found foundCounts
	require.NoError(t, json.Unmarshal(out, &found))
	require.Equal(t, foundCounts{Sessions: 2, Wrong: 2, Kudos: 8, Comments: 2}, found)
	require.Equal(t, foundCounts{Sessions: 2, Wrong: 2, Kudos: 8, Comments: 2, Healed: 2}, runJSON[foundCounts](s, "counters", "verify", "--heal"))
	require.Equal(t, foundCounts{Sessions: 2}, runJSON[foundCounts](s, "counters", "verify"))
}
