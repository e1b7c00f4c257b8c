package tests

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/privacy"
)

// A change of mode is sent again until it is answered, through a server that dies once on the way: between the cache and
// the commit, between the commit and the cache, or anywhere else. The cache is never looser than the database, and in the
// end nothing is left of what the user kept.
func TestTrialsServerKilledAtEveryRoundTripOfAModeChange(t *testing.T) {
	alongside(t)
	for _, mode := range []activity.Mode{activity.ModeSummary, activity.ModeOff} {
		t.Run(string(mode), func(t *testing.T) {
			eachCrashPoint(t, "server that changes a mode to "+string(mode), fewer(func(t *testing.T, at int, after bool) (tally, bool) {
				return changeKilled(t, mode, at, after)
			}))
		})
	}
}

// fewer has a sample pass over every second point, where there are two things to play.
func fewer(trial crashTrialFunc) crashTrialFunc {
	if scale() > 0 {
		return trial
	}
	var points [2]int // before and after: each goes from point to point by itself
	return func(t *testing.T, at int, after bool) (found tally, killed bool) {
		n := &points[b2i(after)]
		if *n++; *n%2 == 0 {
			return tally{}, true
		}
		return trial(t, at, after)
	}
}

func changeKilled(t *testing.T, mode activity.Mode, at int, after bool) (found tally, killed bool) {
	t.Helper()
	s := newStack(t)
	a := newArena(t, s)
	defer a.pool.Close()
	r := &racer{Created: a.keepsMuch()}
	fragile, crash := s.fragile(0, after)
	crash.onceServing = at
	change := fmt.Sprintf(`{"privacy":%q}`, mode)
	killed, status := fragile.requestThrough(crash, http.MethodPatch, "/v1/me", r.Token, change)
	a.countLooser(r.ID, &found)
	if status == http.StatusOK {
		require.NoError(t, a.leaks(t.Context(), r, &found, "when the change has answered"))
	}
	if killed {
		base, _ := s.serve("--no-aggregate")
		// Somebody fills what the dead one left empty.
		upload(t, base, createdUser{Token: r.Token}, clock.System{}.Now().Add(-time.Hour))
		a.countLooser(r.ID, &found)
		status, answer := call(t, http.MethodPatch, base+"/v1/me", r.Token, change)
		require.Equal(t, 200, status, answer)
		require.NoError(t, a.leaks(t.Context(), r, &found, "when the change has answered"))
		upload(t, base, createdUser{Token: r.Token}, clock.System{}.Now().Add(-time.Hour))
	}
	a.countLooser(r.ID, &found)
	require.Equal(t, mode, a.storedEntry(r.ID).Mode)
	s.settle()
	require.NoError(t, a.leaks(t.Context(), r, &found, "after a further cycle"))
	// What the user did before stands in any mode.
	found.Expected = 2
	found.Found = rows[struct{ N int64 }](t, a.pool, `SELECT count(*) FROM sessions WHERE started_at < now() - interval '90 minutes'`)[0].N
	found.Lost, found.Duplicates = max(0, found.Expected-found.Found), max(0, found.Found-found.Expected)
	return found, killed
}

// keepsMuch is a user on full with a session, its archive and hot events, whose mode is cached.
func (a *arena) keepsMuch() account.Created {
	t := a.t
	r, err := a.newRacer(t.Context())
	require.NoError(t, err)
	base, p := a.serve("--no-aggregate")
	now := clock.System{}.Now()
	upload(t, base, createdUser{Token: r.Token}, now.Add(-5*time.Hour))
	a.workerOnce()
	upload(t, base, createdUser{Token: r.Token}, now.Add(-2*time.Hour), now)
	require.NoError(t, p.stop(t, syscall.SIGTERM))
	places, err := a.scan.user(t.Context(), r.ID)
	require.NoError(t, err)
	require.Len(t, places, 3, "hot events, session details and archive details")
	return r.Created
}

func (a *arena) countLooser(id uuid.UUID, found *tally) {
	a.t.Helper()
	_, looser, err := a.looser(a.t.Context(), id)
	require.NoError(a.t, err)
	if looser {
		found.Leaked++
		a.t.Logf("the cache is looser than %v", a.storedEntry(id))
	}
}

func (a *arena) storedEntry(id uuid.UUID) privacy.Entry {
	a.t.Helper()
	return rows[privacy.Entry](a.t, a.pool, `SELECT version, privacy FROM users WHERE id = $1`, id)[0]
}
