package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/testenv"
)

// outage is a way in which a server, or the way to it, fails for a while.
type outage struct {
	name     string
	postgres bool // it is Postgres that fails: without that requests cannot succeed, without Redis they must
	durable  bool // Redis has an append-only file
	gated    bool // it is the way to the server that fails
	// begin lets it fail, and returns what ends it.
	begin func(l *liveStack, r *rand.Rand) (end func())
	// longest bounds the time between the two.
	longest time.Duration
}

var outages = []outage{
	{name: "Postgres killed", postgres: true, begin: killed((*liveStack).ofPostgres), longest: time.Second},
	{name: "Postgres hung", postgres: true, begin: hung((*liveStack).ofPostgres), longest: 4 * time.Second},
	{name: "Postgres cut off", postgres: true, gated: true, begin: cut((*liveStack).toPostgres), longest: 4 * time.Second},
	{name: "Redis killed", begin: killed((*liveStack).ofRedis), longest: 2 * time.Second},
	{name: "Redis killed, with a log", durable: true, begin: killed((*liveStack).ofRedis), longest: 2 * time.Second},
	{name: "Redis hung", begin: hung((*liveStack).ofRedis), longest: 4 * time.Second},
	{name: "Redis cut off", gated: true, begin: cut((*liveStack).toRedis), longest: 4 * time.Second},
}

func (l *liveStack) ofPostgres() testenv.Server { return l.postgres }
func (l *liveStack) ofRedis() testenv.Server    { return l.redis }
func (l *liveStack) toPostgres() *gate          { return l.postgresGate }
func (l *liveStack) toRedis() *gate             { return l.redisGate }

// killed ends all processes of a server at once by SIGKILL, and starts it again on what it left.
func killed(of func(*liveStack) testenv.Server) func(*liveStack, *rand.Rand) func() {
	return func(l *liveStack, _ *rand.Rand) func() {
		require.NoError(l.t, of(l).Kill(l.t.Context()))
		return func() { require.NoError(l.t, of(l).Restart(l.t.Context())) }
	}
}

// hung stops all processes of a server, and lets them go on.
func hung(of func(*liveStack) testenv.Server) func(*liveStack, *rand.Rand) func() {
	return func(l *liveStack, _ *rand.Rand) func() {
		require.NoError(l.t, of(l).Signal(syscall.SIGSTOP))
		return func() { require.NoError(l.t, of(l).Signal(syscall.SIGCONT)) }
	}
}

// cut closes the way to a server: connections are refused, or whatever is sent goes nowhere.
func cut(to func(*liveStack) *gate) func(*liveStack, *rand.Rand) func() {
	return func(l *liveStack, r *rand.Rand) func() {
		if r.IntN(2) == 0 {
			to(l).refuse()
		} else {
			to(l).swallow()
		}
		return to(l).open
	}
}

// recovery is how long the service may take to be whole again, by itself, once its servers are back.
const recovery = 30 * time.Second

// While a server of the service's dies, hangs or is cut off, at random moments, clients go on uploading and reading. Each
// request must be answered within its deadline, and those that do not need the server must succeed; what was acknowledged
// must survive, once; and the service must come back without anybody's help.
func TestTrialsServerCrashes(t *testing.T) {
	alongside(t)
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			rounds := scaled(20, 1)
			s := newSuite(t, o.name, rounds)
			seed := crashSeed()
			t.Logf("COMMMA_SEED=%d", seed)
			r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it must be repeatable
			l := newLiveStack(t, o)
			for range rounds {
				s.add(l.round(o, r))
			}
			t.Log(l.summary())
		})
	}
}

// crashSeed is random, or what COMMMA_SEED says.
func crashSeed() uint64 {
	if seed, err := strconv.ParseUint(os.Getenv("COMMMA_SEED"), 10, 64); err == nil {
		return seed
	}
	return rand.Uint64()
}

// liveStack is the service as it runs: servers of its own, an API process, a worker, and clients.
type liveStack struct {
	*scene
	postgres, redis         testenv.Server
	postgresGate, redisGate *gate
	serve, worker           *process
	clients                 *clients
	slowest                 time.Duration // recovery
}

func newLiveStack(t *testing.T, o outage) *liveStack {
	t.Helper()
	l := &liveStack{postgres: testenv.OwnPostgres(t)}
	if o.durable {
		l.redis = testenv.OwnDurableRedis(t)
	} else {
		l.redis = testenv.OwnRedis(t)
	}
	l.scene = sceneOf(&stack{t: t, database: l.postgres.URL(), rdb: l.redis.URL()})
	// What makes a 202 outlive the server's processes, whatever is turned off to make tests fast.
	for _, r := range rows[struct{ Value string }](t, l.pool, `SELECT setting FROM pg_settings WHERE name = 'synchronous_commit'`) {
		require.Equal(t, "on", r.Value)
	}
	l.clients = newClients(l.scene)
	service := *l.stack
	if o.gated {
		l.postgresGate, service.database = newGate(t, l.database)
		l.redisGate, service.rdb = newGate(t, l.stack.rdb)
	}
	l.clients.base, l.serve = service.serve("--no-aggregate", "--ingest-per-hour=0", "--reads-per-hour=0")
	l.worker = start(t, service.command(context.Background(), "worker", "--aggregate-every=50ms", "--publish-every=50ms"))
	l.worker.stderr.await(t, "msg=working", l.worker.done)
	l.clients.warmUp()
	require.True(t, l.recovered(), "it works before anything fails")
	return l
}

// round has the clients at work, the outage come at some moment, and compares when all is over.
func (l *liveStack) round(o outage, r *rand.Rand) tally {
	stop := l.clients.start(!o.postgres)
	l.wait(50*time.Millisecond + time.Duration(r.Int64N(int64(500*time.Millisecond))))
	end := o.begin(l, r)
	l.wait(time.Duration(r.Int64N(int64(o.longest))))
	end()
	l.pool.Reset() // the test's own
	back := clock.System{}.Now()
	l.wait(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
	found := stop() // each client ends with its upload acknowledged
	found.Errors += l.ended()
	if !l.recovered() {
		found.Errors++
	}
	l.slowest = max(l.slowest, clock.System{}.Now().Sub(back))
	found.add(l.standing(l.pool, l.spans()))
	found.add(l.verify())
	found.add(l.clients.counted())
	return found
}

func (l *liveStack) wait(d time.Duration) { _ = clock.Sleep(l.t.Context(), d) }

// ended counts our processes that did not live through it.
func (l *liveStack) ended() (n int64) {
	for _, p := range []*process{l.serve, l.worker} {
		select {
		case <-p.done:
			n++
		default:
		}
	}
	return n
}

// recovered waits until the running processes have nothing left to do: no event is hot, nobody pending or set aside, and
// all boards are in Redis.
func (l *liveStack) recovered() bool {
	ctx, cancel := context.WithTimeout(l.t.Context(), recovery)
	defer cancel()
	for clock.Sleep(ctx, 50*time.Millisecond) == nil {
		if left, err := l.left(ctx); err == nil && left == 0 {
			return true
		}
	}
	return false
}

func (l *liveStack) left(ctx context.Context) (n int64, err error) {
	err = l.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM hot_runs)
		+ (SELECT count(*) FROM outbox) + (SELECT count(*) FROM finalize_failures)`).Scan(&n)
	if err != nil || n > 0 {
		return n, err
	}
	return l.unbuilt(ctx)
}

func (l *liveStack) summary() string {
	return fmt.Sprintf("%d uploads and %d reads, the slowest took %v; %d refused; whole again within %v",
		l.clients.uploads.Load(), l.clients.reads.Load(), time.Duration(l.clients.slowest.Load()).Round(time.Millisecond),
		l.clients.refused.Load(), l.slowest.Round(time.Millisecond))
}

// unbuilt counts the boards that Redis should have and does not have whole.
func (l *liveStack) unbuilt(ctx context.Context) (n int64, err error) {
	boards, err := leaderboard.NewBuilder(l.pool, l.scene.rdb, languages.Keys(), nopLogger()).Kept(ctx, clock.System{}.Now())
	if err != nil {
		return 0, err
	}
	states, err := leaderboard.NewBoards(l.scene.rdb).States(ctx, boards)
	for _, s := range states {
		if s.Generation == "" {
			n++
		}
	}
	return n, err
}
