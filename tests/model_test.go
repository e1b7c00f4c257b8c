package tests

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
)

const (
	modelSequences = 10_000
	modelSample    = 60
	modelLanes     = 3
)

// Random users do random things to the real program, whose processes die now and then. What stands in the end must be
// what the model makes of the same events, zones, modes and deletes.
//
// A sequence that fails is made smaller, and the test says with which seed and which file to repeat it.
func TestTrialsModel(t *testing.T) {
	alongside(t)
	n := scaled(modelSequences, modelSample)
	lanes := min(n, modelLanes)
	each := setSequences(t, (n+lanes-1)/lanes)
	s := newSuite(t, "random sequences, compared with the model", lanes*each)
	for i := range lanes {
		t.Run(fmt.Sprintf("lane%d", i+1), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, newLane(t, s).run)
		})
	}
}

// setSequences sets how many sequences each lane runs, unless the command line says so, and returns how many these are.
func setSequences(t *testing.T, n int) int {
	t.Helper()
	const checks = "rapid.checks"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == checks })
	if !given {
		require.NoError(t, flag.Set(checks, fmt.Sprint(n)))
	}
	n, err := strconv.Atoi(flag.Lookup(checks).Value.String())
	require.NoError(t, err)
	return n
}

// lane is servers of its own, on which one sequence runs after the other, each with new users. Nobody else works on them,
// so what stands there is what the sequence did.
type lane struct {
	*stack
	suite  *suite
	pool   *pgxpool.Pool
	rdb    redis.UniversalClient
	reader *leaderboard.Reader
	tables []string  // of users
	of     *userRows // what they hold
	today  time.Time // when the lane began
	worker *modelWorker
	base   string
	server *process
	client *http.Client

	runs   int
	dirty  bool // a sequence did not come to its end
	failed bool

	mu      sync.Mutex
	missing []leaderboard.Board // boards that a reader missed
}

// modelWorker is an aggregator and a publisher of one process, until it is killed.
type modelWorker struct {
	finalizer  *aggregate.Finalizer
	aggregator *aggregate.Aggregator
	publisher  *outbox.Publisher
}

func newModelWorker(pool *pgxpool.Pool, rdb redis.UniversalClient, parallel int) *modelWorker {
	f := newFinalizer()
	return &modelWorker{
		finalizer: f, aggregator: aggregate.New(pool, f, clock.System{}, nopLogger(), parallel),
		publisher: publisherOf(modelBoardLanguages(), pool, rdb),
	}
}

func newLane(t *testing.T, s *suite) *lane {
	t.Helper()
	l := &lane{stack: &stack{t: t, database: testenv.PostgresURL(t), rdb: testenv.OwnRedis(t).URL()}, suite: s, today: clock.System{}.Now().UTC()}
	l.pool = openPool(t, l.database)
	t.Cleanup(l.pool.Close)
	rdb, err := redisconn.Open(t.Context(), l.stack.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	l.of = newUserRows(t, l.pool)
	for _, c := range userTables(t, l.pool) {
		l.tables = append(l.tables, c.Table)
	}
	l.tables = slices.Compact(l.tables) // a table with several columns of users is there once for each
	l.rdb, l.worker = rdb, newModelWorker(l.pool, rdb, 2)
	l.reader = leaderboard.NewReader(l.pool, rdb, leaderboard.ReaderConfig{
		RedisTimeout: 5 * time.Second, Languages: modelBoardLanguages(),
		MissingFunc: func(b leaderboard.Board) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.missing = append(l.missing, b)
		},
	})
	l.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(l.client.CloseIdleConnections)
	l.startServer()
	return l
}

// modelMaxAge lets events come in from the years whose clock changes are tried.
const modelMaxAge = 200_000 * time.Hour

func (l *lane) startServer() {
	l.base, l.server = l.serve("--no-aggregate", "--max-event-age="+modelMaxAge.String(), "--ingest-per-hour=0", "--reads-per-hour=0",
		"--writes-per-hour=0", "--failed-auth-per-hour=0")
}

// killServer kills the server, which may be dead already, and starts another.
func (l *lane) killServer() {
	_ = l.server.cmd.Process.Signal(syscall.SIGKILL)
	<-l.server.done
	l.startServer()
}

// cleanEvery is after how many sequences a lane forgets the users of all: what a build of boards costs must not grow.
const cleanEvery = 25

// clean empties the servers. Users are forgotten under the server's feet, as no caller of the next sequence has a token of
// theirs.
func (l *lane) clean(s *sequence) {
	_, err := l.pool.Exec(s.Context(), "TRUNCATE "+strings.Join(l.tables, ", "))
	require.NoError(s, err)
	require.NoError(s, l.rdb.FlushAll(s.Context()).Err())
}

// run is one sequence.
func (l *lane) run(t *rapid.T) {
	s := &sequence{T: t, lane: l}
	if l.dirty || l.runs%cleanEvery == 0 {
		l.clean(s)
	}
	l.runs++
	l.dirty = true
	s.resetHorizon()
	s.setUp()
	for range 2 + below(18).Draw(t, "actions") {
		a := modelActions[below(len(modelActions)).Draw(t, "action")]
		s.note("%s", a.name)
		a.do(s)
	}
	s.settle(nil)
	s.compare()
	if s.oneIn(4, "present") {
		s.present()
	}
	found := s.found()
	s.leave()
	l.dirty = false
	if !l.failed { // from then on sequences are repeated and made smaller
		l.suite.add(found)
	}
}

// sequence is one run of random actions.
type sequence struct {
	*rapid.T
	*lane
	users       []*modelUser
	horizon     int64 // second before which nothing is accepted any more
	builderDied bool  // boards may wait for a builder that is no more
	settledOn   calendar.Day
	trace       []string
}

func (s *sequence) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
	s.Logf(format, args...)
}

// until asks again and again, and fails the sequence when a minute did not bring a yes. Unlike require.Eventually it asks
// at once, and in the goroutine that may fail the sequence.
func (s *sequence) until(yes func() bool) {
	s.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !yes() {
		select {
		case <-again.C:
		case <-deadline.C:
			require.FailNow(s, "not within a minute")
		}
	}
}

// Errorf fails the sequence. The first failure is kept whole: it may hang on chance, and not show again.
func (s *sequence) Errorf(format string, args ...any) {
	if !s.failed {
		s.failed = true
		s.lane.t.Logf("first failure: %s\nafter: %s", fmt.Sprintf(format, args...), strings.Join(s.trace, "; "))
	}
	s.T.Errorf(format, args...)
}
