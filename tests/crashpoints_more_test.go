package tests

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
)

// hoursAgo is a second since the epoch.
func hoursAgo(n int) int64 { return clock.System{}.Now().Add(-time.Duration(n) * time.Hour).Unix() }

const minute = 60

// twoSessions gives a user two sessions of ten minutes, half an hour apart, and returns the second at which the first
// begins to have events.
func (s *scene) twoSessions(user uuid.UUID) (first int64) {
	s.t.Helper()
	first = hoursAgo(5)
	s.hot(user, first, first+10*minute)
	s.hot(user, first+40*minute, first+50*minute)
	s.finalize(user)
	return first
}

// A publish alone: boards are whole, nothing is hot, and users are pending who have grown, who have lost a session or all
// of them, and who are gone.
func TestTrialsPublisherKilledAtEveryRoundTrip(t *testing.T) {
	eachCrashPoint(t, "publisher", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newScene(t)
		grows, shrinks, empties, goes := s.user(), s.user(), s.user(), s.user()
		for _, id := range []uuid.UUID{grows, shrinks, goes} {
			s.twoSessions(id)
		}
		s.hot(empties, hoursAgo(5), hoursAgo(5))
		s.finalize(empties)
		s.publish()
		s.hot(grows, hoursAgo(3), hoursAgo(3))
		s.finalize(grows)
		s.deleteFirstSession(shrinks)
		s.deleteFirstSession(empties)
		s.deleteUser(goes)

		killed := s.runUntilKilled(at, after, "worker", "--once")
		found := s.afterCrash()
		found.Errors += int64(len(keysOf(t, s.rdb, goes.String())) + len(keysOf(t, s.rdb, empties.String())))
		return found, killed
	})
}

// A rebuild by hand while users are pending: another publisher comes by once the builder is dead.
func TestTrialsRebuildKilledAtEveryRoundTrip(t *testing.T) {
	eachCrashPoint(t, "rebuild", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newScene(t)
		s.pendingOnWholeBoards()
		killed := s.runUntilKilled(at, after, "leaderboard", "rebuild", "--lang=all")
		s.publishMeanwhile()
		return s.afterCrash(), killed
	})
}

// The rebuild that a worker makes when Redis has lost everything, with users pending and one to finalize.
func TestTrialsWorkerKilledAtEveryRoundTripAfterFlush(t *testing.T) {
	eachCrashPoint(t, "worker that rebuilds after a flush", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newScene(t)
		s.pendingOnWholeBoards()
		s.hot(s.user(), hoursAgo(3), hoursAgo(3))
		require.NoError(t, s.rdb.FlushDB(t.Context()).Err())
		killed := s.runUntilKilled(at, after, "worker", "--once")
		s.publishMeanwhile()
		return s.afterCrash(), killed
	})
}

// pendingOnWholeBoards has three users on whole boards; one has grown since, and one is gone.
func (s *scene) pendingOnWholeBoards() {
	s.t.Helper()
	grows, stays, goes := s.user(), s.user(), s.user()
	for _, id := range []uuid.UUID{grows, stays, goes} {
		s.twoSessions(id)
	}
	s.publish()
	s.hot(grows, hoursAgo(3), hoursAgo(3))
	s.finalize(grows)
	s.deleteUser(goes)
}

// A cycle for users who have sessions, archives and places on boards: late events merge two sessions of one, extend those of
// another at both ends, and fall into a session of the third.
func TestTrialsMergingWorkerKilledAtEveryRoundTrip(t *testing.T) {
	eachCrashPoint(t, "worker that merges and extends", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newScene(t)
		merges, extends, fills := s.user(), s.user(), s.user()
		first := map[uuid.UUID]int64{}
		for _, id := range []uuid.UUID{merges, extends, fills} {
			first[id] = s.twoSessions(id)
		}
		s.publish()
		before := s.sessionIDs(merges)
		s.hot(merges, first[merges]+25*minute, first[merges]+25*minute)
		s.hot(extends, first[extends]-10*minute, first[extends]-10*minute)
		s.hot(extends, first[extends]+60*minute, first[extends]+62*minute)
		s.hot(fills, first[fills]+5*minute+30, first[fills]+5*minute+30)

		killed := s.runUntilKilled(at, after, "worker", "--once")
		found := s.afterCrash()
		found.Errors += s.unmerged(merges, before)
		return found, killed
	})
}

// An upload of late events beside finalized sessions, sent again until it is answered; then a cycle. They bridge two
// sessions, extend them at both ends and fall into one.
func TestTrialsServerKilledAtEveryRoundTripOfALateUpload(t *testing.T) {
	eachCrashPoint(t, "server that takes late events", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newScene(t)
		user := s.account("victim", "UTC")
		id := uuid.MustParse(user.ID)
		first := s.twoSessions(id)
		s.publish()
		before := s.sessionIDs(id)
		var events []string
		for _, late := range []int64{first - 10*minute, first + 5*minute + 30, first + 25*minute, first + 60*minute} {
			events = append(events, fmt.Sprintf(`{"id":"%s","ts":%d,"lang":"go","keystrokes":5,"lines":1}`, uuid.NewString(), late*1000))
			s.seconds[id] = append(s.seconds[id], late)
		}
		body := `{"events":[` + strings.Join(events, ",") + `]}`

		fragile, crash := s.fragile(at, after)
		killed, status := fragile.requestThrough(crash, http.MethodPost, "/v1/ingest", user.Token, body)
		var found tally
		if status == http.StatusAccepted {
			found.Lost = 4 - rows[struct{ N int64 }](t, s.pool, `SELECT count(*) FROM events`)[0].N
		}
		if killed {
			found.Errors += s.again(http.MethodPost, "/v1/ingest", user.Token, body, http.StatusAccepted)
		}
		found.add(s.afterCrash())
		found.Errors += s.unmerged(id, before)
		return found, killed
	})
}

// A user who is deleted is gone once the client has its answer, however often it had to ask; others are not touched.
func TestTrialsServerKilledAtEveryRoundTripOfAUsersDelete(t *testing.T) {
	eachCrashPoint(t, "server that deletes a user", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newScene(t)
		user, other := s.account("victim", "UTC"), s.user()
		id := uuid.MustParse(user.ID)
		s.twoSessions(other)
		first := s.twoSessions(id)
		s.hot(id, first+25*minute, first+25*minute) // an alias
		s.finalize(id)
		s.publish()
		s.hot(id, hoursAgo(1), hoursAgo(0))
		delete(s.seconds, id)

		fragile, crash := s.fragile(at, after)
		killed, status := fragile.requestThrough(crash, http.MethodDelete, "/v1/me", user.Token, "")
		var found tally
		if status == http.StatusNoContent {
			found.Errors += rowsOf(t, s.pool, id, "outbox")
		}
		if killed {
			found.Errors += s.again(http.MethodDelete, "/v1/me", user.Token, "", http.StatusNoContent, http.StatusForbidden)
		}
		found.Errors += rowsOf(t, s.pool, id, "outbox")
		found.add(s.afterCrash())
		found.Errors += rowsOf(t, s.pool, id) + int64(len(keysThatStay(t, s.rdb, user.ID)))
		return found, killed
	})
}

// again sends a request to a server that lives, and counts an answer that is none of those wanted.
func (s *stack) again(method, path, token, body string, want ...int) (wrong int64) {
	s.t.Helper()
	base, p := s.serve("--no-aggregate")
	status, answer := call(s.t, method, base+path, token, body)
	require.NoError(s.t, p.stop(s.t, syscall.SIGTERM))
	for _, w := range want {
		if status == w {
			return 0
		}
	}
	s.t.Errorf("%s %s: %d %s", method, path, status, answer)
	return 1
}

func (s *scene) sessionIDs(user uuid.UUID) (ids []uuid.UUID) {
	s.t.Helper()
	for _, r := range rows[struct{ ID uuid.UUID }](s.t, s.pool, `SELECT id FROM sessions WHERE user_id = $1 ORDER BY started_at`, user) {
		ids = append(ids, r.ID)
	}
	return ids
}

// unmerged counts what is wrong after a user's two sessions became one: the earlier id must stand for it, and the later
// one must lead there.
func (s *scene) unmerged(user uuid.UUID, before []uuid.UUID) (wrong int64) {
	s.t.Helper()
	now := s.sessionIDs(user)
	if len(now) != 1 || now[0] != before[0] {
		wrong++
	}
	aliases := rows[struct{ ID, Heir uuid.UUID }](s.t, s.pool, `SELECT id, heir FROM session_aliases WHERE user_id = $1`, user)
	if len(aliases) != 1 || aliases[0].ID != before[1] || aliases[0].Heir != before[0] {
		wrong++
	}
	return wrong
}
