package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/testenv"
)

// fragileArena has two processes of serve, which are killed, on a Redis that comes back with an old file.
type fragileArena struct {
	*arena
	slow  *stack
	redis testenv.Server
	procs []*process
	// restored is how often Redis came back with an old file.
	restored int
}

func fragileServers(t *testing.T) *fragileArena {
	t.Helper()
	own := testenv.OwnDurableRedis(t)
	s := &stack{t: t, database: testenv.PostgresURL(t), rdb: own.URL()}
	database := &slowProxy{t: t, max: mostDelay, split: true}
	rdb := &slowProxy{t: t, max: mostDelay}
	f := &fragileArena{
		arena: newArena(t, s), redis: own, procs: make([]*process, 2),
		slow: &stack{t: t, database: database.through(s.database), rdb: rdb.through(s.rdb)},
	}
	f.slow.logs = f.logs
	f.bases = make([]string, len(f.procs))
	// The boards are there before anybody is killed: who dies while building one leaves its token for half a minute, in
	// which nobody who goes off is told that all is well.
	f.buildBoards()
	for i := range f.procs {
		f.revive(i)
	}
	return f
}

func (f *fragileArena) revive(i int) {
	f.t.Helper()
	base, p := f.slow.serve("--log-level=debug", "--aggregate-every=100ms", "--publish-every=1s", "--database-max=16",
		"--ingest-per-hour=0", "--reads-per-hour=0", "--writes-per-hour=0")
	f.procs[i] = p
	f.setBase(i, base)
}

// chaos kills a process, lets it come back, and puts an old file in Redis's place, over and over until the rounds are over.
func (f *fragileArena) chaos(over <-chan struct{}) {
	f.t.Helper()
	pace := 2 * time.Second
	if scale() == 0 {
		pace = 600 * time.Millisecond
	}
	dir := redisDir(f.t, f.direct)
	for n := 0; ; n++ {
		if ended(f.t.Context(), over, pace) {
			return
		}
		old := filepath.Join(dir, "old")
		copyDir(f.t, filepath.Join(dir, "appendonlydir"), old)
		i := n % len(f.procs)
		_ = f.procs[i].cmd.Process.Kill()
		<-f.procs[i].done
		f.revive(i)
		if ended(f.t.Context(), over, pace) {
			return
		}
		f.epoch.Add(1)
		require.NoError(f.t, f.redis.Kill(f.t.Context()))
		require.NoError(f.t, os.RemoveAll(filepath.Join(dir, "appendonlydir")))
		require.NoError(f.t, os.Rename(old, filepath.Join(dir, "appendonlydir")))
		require.NoError(f.t, f.redis.Restart(f.t.Context()))
		f.epoch.Add(1)
		f.restored++
		if scale() == 0 {
			<-over // a sample has a process killed, and a file restored, once
			return
		}
	}
}

// ended waits for so long, and says whether the rounds were over before.
func ended(ctx context.Context, over <-chan struct{}, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

var processID = regexp.MustCompile(`process_id:(\d+)`)

// redisDir is where a Redis on this machine keeps its files. It may know the directory by a descriptor alone.
func redisDir(t *testing.T, rdb redis.UniversalClient) string {
	t.Helper()
	dir := rdb.ConfigGet(t.Context(), "dir").Val()["dir"]
	rest, ok := strings.CutPrefix(dir, "/proc/self/")
	if !ok {
		return dir
	}
	pid := processID.FindStringSubmatch(rdb.Info(t.Context(), "server").Val())
	require.Len(t, pid, 2)
	real, err := filepath.EvalSymlinks("/proc/" + pid[1] + "/" + rest)
	require.NoError(t, err)
	return real
}

// copyDir copies a directory with the owners of its files.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
