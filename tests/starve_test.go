package tests

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
)

const (
	starveRounds    = 200
	starveSample    = 12
	sameUserClients = 12
)

// onlyTried stands before the function by which a change waits for the ingest lock, and does not wait.
const onlyTried = `CREATE FUNCTION pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	IF NOT pg_catalog.pg_try_advisory_xact_lock($1) THEN
		RAISE EXCEPTION 'not free' USING ERRCODE = 'lock_not_available';
	END IF; END $$`

// starve has a user change modes, each time by one request, while many clients of the same user upload without pause. Each
// change must be answered 200 within the time that it may wait for a lock, and none of the uploads may fail.
func starve(t *testing.T, s *suite, rounds int, shadows ...string) {
	t.Helper()
	st := newStack(t)
	for _, function := range shadows {
		st.shadow(function)
	}
	a := newArena(t, st)
	for range 2 { // whose groups hold the lock one beside the other, for as long as a slow database takes
		database := &slowProxy{t: t, max: 5 * time.Millisecond, split: true}
		a.bases = append(a.bases, startNode(t, nodeConfig{database: database.through(st.database), rdb: st.rdb}))
	}
	r, err := a.newRacer(t.Context())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var stored atomic.Int64
	var streams sync.WaitGroup
	for range sameUserClients {
		streams.Go(func() {
			for ctx.Err() == nil {
				if err := a.upload(ctx, r, 1, true, true); err == nil {
					stored.Add(1)
				} else if ctx.Err() == nil {
					t.Errorf("an upload failed: %v", err)
					return
				}
			}
		})
	}
	var slowest time.Duration
	for n := range rounds {
		// The stream goes on from one change to the next.
		before := stored.Load()
		require.Eventually(t, func() bool { return stored.Load() >= before+sameUserClients }, time.Minute, time.Millisecond)
		began := clock.System{}.Now()
		status, _, err := a.try(t.Context(), http.MethodPatch, a.base()+"/v1/me", r.Token,
			[]byte(`{"privacy":"`+[]string{"summary", "full", "off", "full"}[n%4]+`"}`))
		slowest = max(slowest, clock.System{}.Now().Sub(began))
		found := tally{Expected: 1}
		if err == nil && status == http.StatusOK {
			found.Found++
		} else {
			found.Errors++
		}
		s.add(found)
	}
	stop()
	streams.Wait()
	t.Logf("%d uploads beside %d changes, of which the slowest took %v", stored.Load(), rounds, slowest.Round(time.Millisecond))
}

// However many uploads of a user are under way, the user's change of mode gets its turn.
func TestTrialsUploadsDoNotStarveAModeChange(t *testing.T) {
	alone(t)
	rounds := scaled(starveRounds, starveSample)
	starve(t, newSuite(t, "mode change amid the same user's uploads", rounds), rounds)
}

// Where a change only tries the lock, uploads are always there first.
func TestTrialsUploadsDoNotStarveAModeChangeWithoutWaiting(t *testing.T) {
	alone(t)
	rounds := scaled(starveRounds, starveSample)
	starve(t, newSuiteWithout(t, "waiting for the lock", "mode change amid the same user's uploads", rounds), rounds, onlyTried)
}
