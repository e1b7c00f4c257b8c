package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/clock"
)

// roundsPerUser is how often a user leaves full and comes back.
const roundsPerUser = 4

// rounds plays rounds of a mode change, so many at a time, and returns when all are over.
func (a *arena) rounds(s *suite, planned, atOnce int) {
	var next atomic.Int64
	var players sync.WaitGroup
	for range atOnce {
		players.Go(func() {
			for !a.t.Failed() {
				r, err := a.newRacer(a.t.Context())
				for range roundsPerUser {
					n := next.Add(1)
					if err != nil || n > int64(planned) || s.seen() {
						break
					}
					var found tally
					found, err = a.round(a.t.Context(), r, []string{"summary", "off"}[n%2])
					s.add(found)
				}
				switch {
				case err == nil:
				case s.without == "":
					a.t.Errorf("a round broke off: %v", err)
				default: // the fault may be seen in this way too
					a.t.Logf("a round broke off: %v", err)
					s.add(tally{Errors: 1})
				}
				if next.Load() >= int64(planned) || s.seen() {
					return
				}
			}
		})
	}
	players.Wait()
}

// seen says that a suite without a guard has shown what it is to show; at full size it goes on, to tell how often.
func (s *suite) seen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.without != "" && scale() < 1 && s.sum.faults() > 0
}

// round has a user leave full amid uploads, fills and finalizing, and counts what is left when the change has answered,
// and again when all that was in flight has ended and was finalized.
func (a *arena) round(ctx context.Context, r *racer, mode string) (found tally, err error) {
	if err := a.prepare(ctx, r, mode); err != nil {
		return found, err
	}
	var flying errgroup.Group
	soon := func(fn func() error) {
		delay := time.Duration(rand.IntN(80)) * time.Millisecond
		flying.Go(func() error {
			_ = clock.Sleep(ctx, delay)
			return fn()
		})
	}
	for i := range 4 {
		open := i%2 == 1
		soon(func() error { return a.upload(ctx, r, 3, open, open && mode == "off") })
	}
	soon(func() error { return a.fill(ctx, r) })
	_ = clock.Sleep(ctx, time.Duration(rand.IntN(80))*time.Millisecond)
	if err := a.leave(ctx, r, mode, &found); err != nil {
		return found, err
	}
	if err := a.leaks(ctx, r, &found, "when the change has answered"); err != nil {
		return found, err
	}
	answered, err := a.events(ctx, r)
	if err != nil {
		return found, err
	}
	if err := flying.Wait(); err != nil {
		return found, err
	}
	return found, a.settled(ctx, r, mode, answered, &found)
}

// leave has the user leave full. Who is off is on no board once that is answered.
func (a *arena) leave(ctx context.Context, r *racer, mode string, found *tally) error {
	epoch := a.epoch.Load()
	if err := a.change(ctx, r, mode); err != nil {
		return err
	}
	r.isFull = false
	if mode != "off" {
		return nil
	}
	shown, err := a.shown(ctx, r)
	// An old file of Redis brings old boards back, until its next publication finds them to be old.
	if shown && epoch%2 == 0 && a.epoch.Load() == epoch {
		found.Leaked++
		a.t.Logf("when the change has answered, user %s is on a board", r.ID)
	}
	return err
}

// prepare brings the user to full with something to erase, and at times with a place on the boards, for who goes off.
func (a *arena) prepare(ctx context.Context, r *racer, mode string) error {
	if !r.isFull {
		if err := a.change(ctx, r, "full"); err != nil {
			return err
		}
	}
	if mode == "off" && (rand.IntN(2) == 0 || a.placed.Load() == 0) {
		if err := a.place(ctx, r); err != nil {
			return err
		}
	}
	if err := a.upload(ctx, r, 2, false, false); err != nil {
		return err
	}
	places, err := a.scan.user(ctx, r.ID)
	if len(places) > 0 {
		a.detailed.Add(1)
	}
	return err
}

// settled counts what a round left behind once it is over.
func (a *arena) settled(ctx context.Context, r *racer, mode string, answered standingEvents, found *tally) error {
	after, err := a.events(ctx, r)
	if err != nil {
		return err
	}
	if mode == "off" {
		// Nothing of an off user is of an open run, and nothing comes to what there was. What had ended may still wait for the
		// aggregator, where the change could not wait for it.
		found.Leaked += answered.Open + after.Open + max(0, after.Hot+after.Used-answered.Hot-answered.Used)
	}
	if err := a.leaks(ctx, r, found, "when all has ended"); err != nil {
		return err
	}
	if err := a.cycle(ctx, r); err != nil {
		return err
	}
	if err := a.leaks(ctx, r, found, "after a further cycle"); err != nil {
		return err
	}
	stand, err := a.events(ctx, r)
	found.Expected, found.Found = r.low.Load(), stand.Used
	found.Lost += max(0, r.low.Load()-stand.Used) + stand.Hot
	found.Duplicates += max(0, stand.Used-r.high.Load())
	return err
}

func (a *arena) leaks(ctx context.Context, r *racer, found *tally, when string) error {
	places, err := a.scan.user(ctx, r.ID)
	if n := sumOf(places); n > 0 {
		found.Leaked += n
		a.t.Logf("%s, user %s: %v", when, r.ID, places)
	}
	return err
}

// over checks all that stands, once all users have left full.
func (a *arena) over(planned int) {
	places, err := a.scan.everybody(a.t.Context())
	require.NoError(a.t, err)
	require.Empty(a.t, places)
	require.NotContains(a.t, redisText(a.t, a.direct), raceMark)
	require.Greater(a.t, a.detailed.Load(), int64(planned/2), "rounds in which there was something to erase")
	require.Positive(a.t, a.placed.Load(), "rounds in which there was a place to leave")
	a.logs.requireNothing(a.t)
}

const (
	raceRounds = 10_000
	raceSample = 24
	// roundsWithout a guard are far more than it takes to see a fault.
	roundsWithout = 200
	mostDelay     = 50 * time.Millisecond
	shortTTL      = 250 * time.Millisecond
	stalledPast   = 400 * time.Millisecond
)

// racers is how many users race at a time in each arena: they wait for most of it.
func racers() int {
	if scale() == 0 {
		return 12
	}
	return 40
}

// slowNodes are two APIs in this process, whose cached modes live shortly, so that fillers are stalled past their end.
func slowNodes(t *testing.T, e edits, shadows ...string) *arena {
	t.Helper()
	s := newStack(t)
	for _, function := range shadows {
		s.shadow(function)
	}
	a := newArena(t, s)
	a.buildBoards()
	for range 2 {
		database := &slowProxy{t: t, max: mostDelay, split: true}
		rdb := &slowProxy{t: t, max: mostDelay, stall: stalledPast, stallOneIn: 30}
		a.bases = append(a.bases, startNode(t, nodeConfig{
			database: database.through(a.database), rdb: rdb.through(a.rdb), ttl: shortTTL, edits: e, aggregate: true,
			log: a.logs.logger(),
		}))
	}
	return a
}

// buildBoards has Redis keep boards, with somebody on them.
func (a *arena) buildBoards() {
	a.t.Helper()
	insertUser(a.t, a.pool, clock.System{}.Now().Add(-2*time.Hour).Unix(), 1)
	a.workerOnce()
}

func TestTrialsRaceOfAModeChange(t *testing.T) {
	alongside(t)
	planned := scaled(raceRounds, raceSample)
	s := newSuite(t, "mode change in a race", planned)
	t.Run("stalled past the time to live", func(t *testing.T) {
		t.Parallel()
		a := slowNodes(t, nil)
		a.rounds(s, planned/2, racers())
		a.over(planned / 2)
	})
	t.Run("killed and restored", func(t *testing.T) {
		t.Parallel()
		a := fragileServers(t)
		over := make(chan struct{})
		go func() {
			defer close(over)
			a.rounds(s, planned-planned/2, racers())
		}()
		a.chaos(over)
		require.Positive(t, a.restored)
		a.over(planned - planned/2)
	})
}

// Each guard is taken out alone, and the same rounds must see it.
func TestTrialsRaceOfAModeChangeWithoutGuards(t *testing.T) {
	alongside(t)
	tried := "WHERE pg_try_advisory_xact_lock_shared(k.lock)"
	shadows := map[string][]string{"the writer lock": {noWriterLock}}
	for guard, e := range map[string]edits{
		"the writer lock": nil,
		"the ingest lock": {{old: tried, new: ""}},
		// All statements see the moment before the lock, as they would if modes were read together with taking it.
		"the later snapshot": {
			{old: "BEGIN ISOLATION LEVEL READ COMMITTED", new: "BEGIN ISOLATION LEVEL REPEATABLE READ"},
			{old: tried, new: "WHERE (SELECT pg_sleep(0.2 * random())) IS NOT NULL AND pg_try_advisory_xact_lock_shared(k.lock)"},
		},
		"the stripping in SQL": {{old: "u.privacy = 'full' AS is_full", new: "true AS is_full"}},
		"the dropping in SQL":  {{old: "WHERE u.privacy <> 'off'\n      AND", new: "WHERE"}},
	} {
		t.Run(guard, func(t *testing.T) {
			alongside(t)
			s := newSuiteWithout(t, guard, "mode change in a race", roundsWithout)
			a := slowNodes(t, e, shadows[guard]...)
			a.rounds(s, roundsWithout, racers())
			for _, edit := range e {
				require.Positive(t, edit.made.Load(), "no statement has %q any more", edit.old)
			}
		})
	}
}

func (e *edit) String() string { return fmt.Sprintf("%q for %q", e.new, e.old) }
