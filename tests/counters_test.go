package tests

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/redisconn"
)

// counterTrial has three sessions of one user, and four who give.
type counterTrial struct {
	*stack
	pool *pgxpool.Pool
	rdb  redis.UniversalClient
}

func newCounterTrial(t *testing.T) *counterTrial {
	t.Helper()
	s := newStack(t)
	c := &counterTrial{stack: s, pool: openPool(t, s.database)}
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	c.rdb = rdb
	for _, sql := range []string{
		`INSERT INTO users (id, handle, token_hash) SELECT gen_random_uuid(), 'giver-' || n, '\x00' FROM generate_series(1, 4) n`,
		`INSERT INTO users (id, handle, token_hash) VALUES (gen_random_uuid(), 'owner', '\x00')`,
		`INSERT INTO sessions (id, user_id, started_at, ended_at, zone, events, keystrokes, lines, top_lang, peak_cpm, peak_at)
			SELECT gen_random_uuid(), id, now(), now(), 'UTC', 1, 1, 1, 'go', 1, now() FROM users, generate_series(1, 3) WHERE handle = 'owner'`,
		`INSERT INTO session_counters (user_id, session_id) SELECT user_id, id FROM sessions`,
	} {
		_, err := c.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	return c
}

func (c *counterTrial) close() {
	c.pool.Close()
	_ = c.rdb.Close()
}

// how a trial ends a child.
type how struct {
	name        string
	after, stop bool
}

var counterFaults = []how{{name: "before"}, {name: "after", after: true}, {name: "stopped before", stop: true}, {name: "stopped after", after: true, stop: true}}

// run has a child act until a point, and others go on; a child that is stopped there is woken after that. fired is false when
// the child came to its end before the point. It returns what the child tried and what it was answered.
func (c *counterTrial) run(mode string, at int, h how, others func(ctx context.Context)) (tried, answered map[uuid.UUID]int64, fired bool) {
	crash := &crashPoint{at: at, after: h.after}
	fragile := &stack{t: c.t, database: crash.through(c.t, c.database), rdb: crash.through(c.t, c.stack.rdb)}
	cmd := exec.CommandContext(context.WithoutCancel(c.t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), "COMMMA_DATABASE_URL="+fragile.database, "COMMMA_REDIS_URL="+fragile.rdb, childMode+"="+mode)
	var out strings.Builder
	cmd.Stdout = &out
	reached := make(chan struct{})
	crash.kill = func() {
		if h.stop {
			_ = cmd.Process.Signal(syscall.SIGSTOP)
		} else {
			_ = cmd.Process.Kill()
		}
		close(reached)
	}
	if h.stop {
		crash.resume = make(chan struct{})
	}
	crash.mu.Lock() // until the process is known
	require.NoError(c.t, cmd.Start())
	crash.mu.Unlock()
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = cmd.Wait()
	}()
	select {
	case <-ended:
	case <-reached:
		if h.stop {
			// What the child holds in Postgres, it holds: others get as far as they can.
			ctx, cancel := context.WithTimeout(c.t.Context(), 100*time.Millisecond)
			others(ctx)
			cancel()
			_ = cmd.Process.Signal(syscall.SIGCONT)
		}
	}
	if h.stop {
		close(crash.resume)
	}
	<-ended
	crash.mu.Lock()
	fired = crash.fired
	crash.mu.Unlock()
	if !fired || h.stop {
		require.NoError(c.t, err)
	}
	tried, answered = map[uuid.UUID]int64{}, map[uuid.UUID]int64{}
	for line := range strings.Lines(out.String()) {
		word, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "try":
			tried[uuid.MustParse(id)]++
		case "ok":
			answered[uuid.MustParse(id)]++
		}
	}
	return tried, answered, fired
}

// twoProcesses runs two flushers at once until ctx ends.
func (c *counterTrial) twoProcesses(ctx context.Context, process func(*counters) interface{ Run(context.Context) error }, change func(*counters)) {
	var running sync.WaitGroup
	for range 2 {
		each := newCounters(c.pool, c.rdb)
		change(each)
		running.Go(func() { _ = process(each).Run(ctx) })
	}
	running.Wait()
}

// until runs fn until a condition holds.
func (c *counterTrial) until(cond func() bool, fn func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() { fn(ctx) })
	require.Eventually(c.t, cond, time.Minute, 5*time.Millisecond)
	cancel()
	running.Wait()
}

func (c *counterTrial) empty(pattern string) bool {
	keys, err := c.rdb.Keys(c.t.Context(), pattern).Result()
	require.NoError(c.t, err)
	return len(keys) == 0
}

// shared compares: no share that was answered may be missing, and none may be counted that was not tried.
func (c *counterTrial) shared(tried, answered map[uuid.UUID]int64) tally {
	var found tally
	for _, r := range rows[struct {
		ID     uuid.UUID
		Shares int64
	}](c.t, c.pool, `SELECT session_id, shares FROM session_counters`) {
		found.Expected += answered[r.ID]
		found.Found += r.Shares
		found.Duplicates += max(0, r.Shares-tried[r.ID])
		found.Lost += max(0, answered[r.ID]-r.Shares)
	}
	return found
}

// sharesTrial has a child share and die; others bring what it left.
func sharesTrial(t *testing.T, mode string, at int, h how) (tally, bool) {
	c := newCounterTrial(t)
	defer c.close()
	change := func(each *counters) { each.withoutID = mode == "shares without flush id" }
	process := func(each *counters) interface{ Run(context.Context) error } { return each.deltas() }
	others := func(ctx context.Context) { c.twoProcesses(ctx, process, change) }
	if mode == "shares without processing" {
		others = func(ctx context.Context) {
			ids := rows[struct{ ID uuid.UUID }](t, c.pool, `SELECT id FROM sessions`)
			for _, r := range ids {
				_ = newCounters(c.pool, c.rdb).flushNaively(ctx, []uuid.UUID{r.ID})
			}
		}
	}
	tried, answered, fired := c.run(mode, at, h, others)
	c.until(func() bool { return c.empty("{wb:shares:*") && c.empty(naiveShares) }, others)
	return c.shared(tried, answered), fired
}

// engagedTrial has a child give and comment and die; others bring what it left.
func engagedTrial(t *testing.T, mode string, at int, h how) (tally, bool) {
	c := newCounterTrial(t)
	defer c.close()
	process := func(each *counters) interface{ Run(context.Context) error } { return each.arms() }
	others := func(ctx context.Context) { c.twoProcesses(ctx, process, func(*counters) {}) }
	_, answered, fired := c.run(mode, at, h, others)
	c.until(func() bool {
		return rows[struct{ N int64 }](t, c.pool, `SELECT count(*) FROM counter_deltas`)[0].N == 0
	}, others)
	var found tally
	for _, r := range rows[struct {
		Kudos, Comments, Given, Written int64
	}](t, c.pool, `SELECT c.kudos, c.comments, (SELECT count(*) FROM kudos k WHERE k.session_id = c.session_id),
		(SELECT count(*) FROM comments m WHERE m.session_id = c.session_id) FROM session_counters c`) {
		found.Expected += r.Given + r.Written
		found.Found += r.Kudos + r.Comments
		found.Drift += abs(r.Kudos-r.Given) + abs(r.Comments-r.Written)
	}
	if !fired { // then it is known what must stand: four comment twice, one takes it back; all give, and one takes back the first
		var n int64
		for _, a := range answered {
			n += a
		}
		require.Equal(t, int64(16), n)
		require.Equal(t, int64(3+6), found.Expected)
	}
	return found, fired
}

// eachCounterFault runs a trial at point after point, for each kind of fault, until the child lives.
func eachCounterFault(t *testing.T, s *suite, mode string, faults []how, trial func(t *testing.T, mode string, at int, h how) (tally, bool)) {
	for _, h := range faults {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			at, stride := crashStride()
			for ; ; at += stride {
				found, fired := trial(t, mode, at, h)
				s.add(found)
				if !fired {
					t.Logf("the child made fewer than %d round trips", at)
					return
				}
			}
		})
	}
}

// Shares: killed, and stopped and woken late, at every round trip from the first share to the last flush.
func TestTrialsSharesAtEveryRoundTrip(t *testing.T) {
	alongside(t)
	eachCounterFault(t, newSuite(t, "shares, flusher killed or stopped at every round trip", 0), "shares", counterFaults, sharesTrial)
}

// The trials see what they are there to see. Each guard is taken out where it matters, at every point: a sample could miss it.
func TestTrialsSharesWithoutAGuard(t *testing.T) {
	alongside(t)
	for mode, guard := range map[string]string{"shares without flush id": "the flush id", "shares without processing": "the processing entry"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newSuiteWithout(t, guard, "shares, flusher killed after every round trip", 0)
			for at := 1; ; at++ {
				found, fired := sharesTrial(t, mode, at, how{after: true})
				s.add(found)
				if !fired || scale() == 0 && found.faults() > 0 {
					break
				}
			}
		})
	}
}

func TestTrialsKudosAndCommentsAtEveryRoundTrip(t *testing.T) {
	alongside(t)
	eachCounterFault(t, newSuite(t, "kudos and comments, process killed or stopped at every round trip", 0), "engage", counterFaults, engagedTrial)
}

func TestTrialsKudosAndCommentsWithoutDeltas(t *testing.T) {
	alongside(t)
	s := newSuiteWithout(t, "the deltas", "kudos and comments, process killed after every round trip", 0)
	for at := 1; ; at++ {
		found, fired := naiveEngagedTrial(t, at)
		s.add(found)
		if !fired || scale() == 0 && found.faults() > 0 {
			return
		}
	}
}

// naiveEngagedTrial is engagedTrial for who counts after the commit; nothing is left for others to do.
func naiveEngagedTrial(t *testing.T, at int) (tally, bool) {
	c := newCounterTrial(t)
	defer c.close()
	_, _, fired := c.run("engage without deltas", at, how{after: true}, func(context.Context) {})
	var found tally
	for _, r := range rows[struct {
		Kudos, Comments, Given, Written int64
	}](t, c.pool, `SELECT c.kudos, c.comments, (SELECT count(*) FROM kudos k WHERE k.session_id = c.session_id),
		(SELECT count(*) FROM comments m WHERE m.session_id = c.session_id) FROM session_counters c`) {
		found.Drift += abs(r.Kudos-r.Given) + abs(r.Comments-r.Written)
	}
	return found, fired
}
