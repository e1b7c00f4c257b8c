package tests

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
)

// commands are those that a Redis has run since its statistics were last reset, scripts' inner ones included.
func commands(t *testing.T, info string) (total float64, list []string) {
	t.Helper()
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		name, rest, ok := strings.Cut(lines.Text(), ":calls=")
		if !ok || strings.HasPrefix(name, "cmdstat_info") || strings.HasPrefix(name, "cmdstat_config") {
			continue // ours; the program asks INFO only inside of scripts, each of which is counted
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseFloat(calls, 64)
		require.NoError(t, err)
		total += n
		list = append(list, name+" "+calls)
	}
	return total, list
}

// metric is a counter of a server.
func metric(t *testing.T, base, name string) float64 {
	t.Helper()
	_, text := call(t, http.MethodGet, base+"/metrics", "", "")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(t, err)
			return n
		}
	}
	return 0
}

// With no traffic a process sends Redis fewer than 100 commands an hour. An hour has 12 rounds of the loops that run every
// five minutes, which here go round every six seconds, more than the least pause between two looks at all boards;
// publishing asks Redis nothing while nobody is pending.
func TestIdleCostsNothing(t *testing.T) {
	t.Parallel()
	s := &stack{t: t, database: testenv.PostgresURL(t), rdb: testenv.OwnRedis(t).URL()}
	base, _ := s.serve("--aggregate-every=6s", "--flush-every=6s", "--publish-every=100ms", "--verify-every=0")
	user := s.createUser("idle", "UTC")
	upload(t, base, user, clock.System{}.Now().Add(-2*time.Hour))
	status, _ := call(t, http.MethodGet, base+"/v1/users/idle", "", "")
	require.Equal(t, 200, status)
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	const hour = 12
	cycles, flushes := `commma_aggregate_cycles_total{result="ok"}`, `commma_flushes_total{result="ok"}`
	rounds := func() float64 { return min(metric(t, base, cycles), metric(t, base, flushes)) }
	// What there was to do is done when the boards are built, nothing is left to flush, and two more rounds have gone by.
	require.Eventually(t, func() bool {
		return rdb.Exists(t.Context(), "wb:{u0}:views:buf", "wb:{u0}:seen:buf", "wb:{u0}:views:proc", "wb:{u0}:seen:proc").Val() == 0 &&
			len(rdb.Keys(t.Context(), "{lb:alltime*").Val()) == 4
	}, time.Minute, 20*time.Millisecond)
	settled := rounds()
	require.Eventually(t, func() bool { return rounds() >= settled+2 }, time.Minute, 20*time.Millisecond)

	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	from := rounds()
	require.Eventually(t, func() bool { return rounds() >= from+3 }, time.Minute, 20*time.Millisecond)
	total, list := commands(t, rdb.Info(t.Context(), "commandstats").Val())
	perHour := total / (rounds() - from) * hour
	t.Logf("%.0f commands in %.0f rounds, %.0f an hour: %v", total, rounds()-from, perHour, list)
	const sweeps = 12 // of shares, an hour; they go round every five minutes here too
	require.Less(t, perHour+sweeps, 100.0, list)
	require.Positive(t, total)
}

// A reader of a process that builds no boards makes one that does build what Redis has lost, without anything being
// finalized.
func TestAMissedBoardIsBuiltByAnotherProcess(t *testing.T) {
	t.Parallel()
	s := &stack{t: t, database: testenv.PostgresURL(t), rdb: testenv.OwnRedis(t).URL()}
	base, _ := s.serve("--no-aggregate")
	user := s.createUser("reader", "UTC")
	upload(t, base, user, clock.System{}.Now().Add(-2*time.Hour))
	s.workerOnce()
	worker := start(t, s.command(t.Context(), "worker", "--aggregate-every=100ms", "--verify-every=0"))
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	built := func() bool { return rdb.Exists(t.Context(), "{lb:alltime:1970-01-01:}:z").Val() == 1 }
	require.True(t, built())
	worker.stderr.await(t, "msg=working", worker.done)
	for range 2 { // the first time it may be the cycle with which the worker starts
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		require.Eventually(t, func() bool {
			status, answer := call(t, http.MethodGet, base+"/v1/leaderboard?period=alltime", "", "")
			require.Equal(t, 200, status)
			require.Contains(t, answer, "reader", "from Postgres until then")
			return built()
		}, time.Minute, 200*time.Millisecond)
	}
}
