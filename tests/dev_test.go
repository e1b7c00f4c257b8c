package tests

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// dev starts `commma-api dev` on a data directory and returns its three curl lines once it serves.
func dev(t *testing.T, dataDir string, env ...string) (p *process, curls []string) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), binary, "dev", "--listen=127.0.0.1:0", "--data-dir="+dataDir)
	cmd.Env = append(withoutServers(os.Environ()), env...)
	p = start(t, cmd)
	p.stdout.await(t, "Ctrl-C", p.done)
	for line := range strings.Lines(p.stdout.String()) {
		if strings.HasPrefix(line, "curl ") {
			curls = append(curls, line)
		}
	}
	require.Len(t, curls, 3)
	return p, curls
}

func withoutServers(env []string) []string {
	var kept []string
	for _, v := range env {
		if !strings.HasPrefix(v, "COMMMA_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// sh runs a line in a shell, as somebody who pastes it does.
func sh(t *testing.T, line string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", line)
	cmd.Env = withoutServers(os.Environ())
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s\n%s", line, stderr.String())
	return stdout.String()
}

// What the README promises of `make run`: from nothing to a leaderboard, over restarts and crashes, in a directory whose
// name has blanks.
func TestDev(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "my data", "commma")
	once := ". '" + dir + "/env' && '" + binary + "' worker --once --now=+20m"

	p, curls := dev(t, dir)
	require.Contains(t, sh(t, strings.TrimSuffix(curls[0], "\n")+` -w '%{http_code}'`), "202")
	require.Contains(t, sh(t, curls[1]), `"handle":"demo"`)
	require.Contains(t, sh(t, curls[2]), `"entries":[]`, "the session has not ended")
	sh(t, once)
	sourced := strings.Fields(sh(t, ". '"+dir+"/env' && env | grep ^COMMMA_"))
	require.Len(t, sourced, 2)
	require.Contains(t, sh(t, curls[2]), `"handle":"demo"`)
	require.NoError(t, p.stop(t, syscall.SIGINT), "Ctrl-C is an orderly end")
	require.NoFileExists(t, filepath.Join(dir, "env"), "nothing to source while nothing runs")

	// Started again by somebody who still has the file's variables in the shell.
	p, curls = dev(t, dir, sourced...)
	require.Contains(t, sh(t, curls[2]), `"handle":"demo"`, "the data survives")
	require.Contains(t, sh(t, curls[1]), `"handle":"demo"`, "and so does the user")

	// A crash of each process in turn; the next start must work whatever it left behind.
	for _, victim := range []string{"dev", "postgres", "redis"} {
		require.NoError(t, syscall.Kill(pidOf(t, p, victim), syscall.SIGKILL))
		<-p.done
		require.Error(t, p.err, "%s was killed: that is no orderly end", victim)
		p, curls = dev(t, dir)
		require.Contains(t, sh(t, curls[2]), `"handle":"demo"`, "after a crash of %s", victim)
	}
	require.NoError(t, p.stop(t, syscall.SIGTERM))
}

// pidOf finds dev itself, or the server that is its child.
func pidOf(t *testing.T, p *process, name string) int {
	t.Helper()
	if name == "dev" {
		return p.cmd.Process.Pid
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (command) state ppid …
		head, rest, _ := strings.Cut(string(text), ") ")
		pid, command, _ := strings.Cut(head, " (")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(p.cmd.Process.Pid) && strings.HasPrefix(command, name) {
			n, err := strconv.Atoi(pid)
			require.NoError(t, err)
			return n
		}
	}
	t.Fatalf("dev has no child %s", name)
	return 0
}

func TestSecondDevOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	dev(t, dir)
	out, err := exec.CommandContext(t.Context(), binary, "dev", "--listen=127.0.0.1:0", "--data-dir="+dir).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), dir)
}
