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
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
)

// outage is a way in which a server, or the way to it, fails for a while.
type outage struct {
	name string
	// begin lets it fail, and returns what ends it.
	begin func(f *failing, r *rand.Rand) (end func())
	// lasting outages outlast the deadlines of requests now and then.
	lasting bool
}

// failing is the server that outages are about, and the way to it.
type failing struct {
	t      *testing.T
	server testenv.Server
	gate   *gate
}

var (
	killed = outage{name: "killed", begin: func(f *failing, _ *rand.Rand) func() {
		f.gate.refuse() // as the machine does where nobody listens
		require.NoError(f.t, f.server.Kill(f.t.Context()))
		return func() {
			require.NoError(f.t, f.server.Restart(f.t.Context()))
			f.gate.open()
		}
	}}
	// emptied is for Redis alone.
	emptied = outage{name: "emptied and killed", begin: func(f *failing, r *rand.Rand) func() {
		rdb, err := redisconn.Open(f.t.Context(), f.server.URL())
		require.NoError(f.t, err)
		defer func() { _ = rdb.Close() }()
		require.NoError(f.t, rdb.FlushAll(f.t.Context()).Err())
		return killed.begin(f, r)
	}}
	hung = outage{name: "hung", lasting: true, begin: func(f *failing, _ *rand.Rand) func() {
		require.NoError(f.t, f.server.Signal(syscall.SIGSTOP))
		return func() { require.NoError(f.t, f.server.Signal(syscall.SIGCONT)) }
	}}
	// cutOff is connections that are refused, or on which whatever is sent goes nowhere.
	cutOff = outage{name: "cut off", lasting: true, begin: func(f *failing, r *rand.Rand) func() {
		if r.IntN(2) == 0 {
			f.gate.refuse()
		} else {
			f.gate.swallow()
		}
		return f.gate.open
	}}
)

// How long an outage lasts at most; one that outlasts deadlines, one in so many rounds, lasts just so long.
const (
	shortOutage = 2 * time.Second
	longOutage  = 11 * time.Second
	longEvery   = 5
)

// recovery is how long the service may take to be whole again, by itself, once its servers are back.
const recovery = 30 * time.Second

// While a server of the service's dies, hangs or is cut off, at random moments, clients go on uploading and reading. Each
// request must be answered within its deadline, what was acknowledged must survive, once, and the service must come back
// without anybody's help. Without Redis, requests must succeed even so, and boards be whole.
func TestTrialsServerCrashes(t *testing.T) {
	alongside(t)
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		eachOutage(t, "Postgres", func(l *liveStack) *failing { return &failing{l.t, l.postgres, l.postgresGate} },
			killed, hung, cutOff)
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		eachOutage(t, "Redis", func(l *liveStack) *failing { return &failing{l.t, l.redis, l.redisGate} },
			killed, emptied, hung, cutOff)
	})
}

func eachOutage(t *testing.T, server string, of func(*liveStack) *failing, outages ...outage) {
	seed := crashSeed()
	t.Logf("COMMMA_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it must be repeatable
	l := newLiveStack(t)
	l.failing = of(l)
	l.clients.must.Store(l.failing.server == l.redis)
	for _, o := range outages {
		rounds := scaled(10, 1)
		t.Run(o.name, func(t *testing.T) {
			s := newSuite(t, server+" "+o.name+" under the running service", rounds)
			for n := range rounds {
				s.add(l.round(o, n, r))
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
	failing                 *failing
	serve, worker           *process
	clients                 *clients
	slowest                 time.Duration // recovery
}

func newLiveStack(t *testing.T) *liveStack {
	t.Helper()
	l := &liveStack{postgres: testenv.OwnPostgres(t), redis: testenv.OwnDurableRedis(t)}
	l.scene = sceneOf(&stack{t: t, database: l.postgres.URL(), rdb: l.redis.URL()})
	// What makes a 202 outlive the server's processes, whatever is turned off to make tests fast.
	on := rows[struct{ Value string }](t, l.pool, `SELECT setting FROM pg_settings WHERE name = 'synchronous_commit'`)
	require.Equal(t, "on", on[0].Value)
	l.clients = newClients(l.scene)
	service := *l.stack
	l.postgresGate, service.database = newGate(t, l.database)
	l.redisGate, service.rdb = newGate(t, l.stack.rdb)
	l.clients.base, l.serve = service.serve("--no-aggregate", "--ingest-per-hour=0", "--reads-per-hour=0")
	l.worker = start(t, service.command(context.WithoutCancel(t.Context()), "worker", "--aggregate-every=50ms", "--publish-every=50ms"))
	l.worker.stderr.await(t, "msg=working", l.worker.done)
	l.clients.warmUp()
	require.True(t, l.recovered(), "it works before anything fails")
	return l
}

// round has the clients at work, the outage come at some moment, and compares when all is over.
func (l *liveStack) round(o outage, n int, r *rand.Rand) tally {
	stop := l.clients.start()
	l.wait(50*time.Millisecond + time.Duration(r.Int64N(int64(500*time.Millisecond))))
	lasts := time.Duration(r.Int64N(int64(shortOutage)))
	if o.lasting && n%longEvery == longEvery-1 {
		lasts = longOutage
	}
	end := o.begin(l.failing, r)
	l.wait(lasts)
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

// summary tells of what was, and begins anew.
func (l *liveStack) summary() string {
	slowest := l.slowest
	l.slowest = 0
	return fmt.Sprintf("%d uploads and %d reads, the slowest took %v; %d refused; whole again within %v",
		l.clients.uploads.Swap(0), l.clients.reads.Swap(0), time.Duration(l.clients.slowest.Swap(0)).Round(time.Millisecond),
		l.clients.refused.Swap(0), slowest.Round(time.Millisecond))
}

// unbuilt counts the boards that Redis should have and does not have whole.
func (l *liveStack) unbuilt(ctx context.Context) (n int64, err error) {
	boards, err := leaderboard.NewBuilder(l.pool, l.scene.rdb, languages.Keys(), nopLogger()).Kept(ctx, nil)
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
