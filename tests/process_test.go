package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/testenv"
)

// binary is the commma-api under test, built once.
var binary string

func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(runChild())
	}
	dir, err := os.MkdirTemp("", "commma-bin-")
	if err == nil {
		binary = filepath.Join(dir, "commma-api")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, "../cmd/commma-api").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build commma-api:", err)
		os.Exit(1)
	}
	// testenv ends the process.
	testenv.AtExit(printTable)
	testenv.AtExit(func(context.Context) error { return os.RemoveAll(dir) })
	testenv.Main(m)
}

// stack is a Postgres database and a Redis of one test, as the processes under test find them.
type stack struct {
	t             *testing.T
	database, rdb string
	logs          *logSearch // of what serves; optional
}

func newStack(t *testing.T) *stack {
	t.Helper()
	return &stack{t: t, database: testenv.PostgresURL(t), rdb: testenv.RedisURL(t)}
}

func (s *stack) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "COMMMA_DATABASE_URL="+s.database, "COMMMA_REDIS_URL="+s.rdb)
	return cmd
}

// run runs a command to its end and returns what it printed.
func (s *stack) run(args ...string) string {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := s.command(s.t.Context(), args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(s.t, cmd.Run(), "commma-api %s: %s", strings.Join(args, " "), stderr.String())
	return stdout.String()
}

// runJSON runs a command that prints one line of JSON.
func runJSON[T any](s *stack, args ...string) T {
	s.t.Helper()
	out := s.run(args...)
	require.Equal(s.t, 1, strings.Count(out, "\n"), "one line: %s", out)
	var v T
	require.NoError(s.t, json.Unmarshal([]byte(out), &v))
	return v
}

type createdUser struct{ ID, Handle, Token string }

func (s *stack) createUser(handle, zone string) createdUser {
	s.t.Helper()
	return runJSON[createdUser](s, "user", "create", handle, "--timezone", zone, "--json")
}

type workerStats struct {
	Aggregate struct{ Due, Finalized, Skipped, Retried, Failed, Sessions, Events, Seconds int }
	Publish   struct{ Users, Left, Built int }
}

func (s *stack) workerOnce(args ...string) workerStats {
	s.t.Helper()
	return runJSON[workerStats](s, append([]string{"worker", "--once"}, args...)...)
}

// process is a command that goes on until the test stops it.
type process struct {
	cmd    *exec.Cmd
	stdout *lines
	stderr *lines
	done   chan struct{}
	err    error
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, stdout: newLines(), stderr: newLines(), done: make(chan struct{})}
	p.stderr.also = cmd.Stderr
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	require.NoError(t, cmd.Start())
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("standard error of %v:\n%s", cmd.Args[1:], p.stderr.String())
		}
	})
	return p
}

// stop sends a signal and waits for the end.
func (p *process) stop(t *testing.T, sig os.Signal) error {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(sig))
	select {
	case <-p.done:
		return p.err
	case <-time.After(30 * time.Second):
		t.Fatalf("did not end after %v", sig)
		return nil
	}
}

// serve starts the API on a free port and returns its URL.
func (s *stack) serve(args ...string) (base string, p *process) {
	s.t.Helper()
	cmd := s.command(context.Background(), append([]string{"serve", "--listen=127.0.0.1:0"}, args...)...)
	if s.logs != nil {
		cmd.Stderr = s.logs.stream()
	}
	p = start(s.t, cmd)
	line := p.stderr.await(s.t, "msg=serving", p.done)
	_, rest, ok := strings.Cut(line, "address=")
	require.True(s.t, ok, line)
	return "http://" + strings.Fields(rest)[0], p
}

// lines collects what a process prints and lets a test wait for a line.
type lines struct {
	mu   sync.Mutex
	cond *sync.Cond
	buf  bytes.Buffer
	also io.Writer // when set, it gets everything, and only the beginning is kept here
}

// keptLines is how much that is, in bytes.
const keptLines = 1 << 20

func newLines() *lines {
	l := &lines{}
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cond.Broadcast()
	if l.also != nil {
		if l.buf.Len() > keptLines {
			return l.also.Write(p)
		}
		if n, err := l.also.Write(p); err != nil {
			return n, err
		}
	}
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await waits for a line that contains want; without one by the end of the process, or within a minute, the test fails.
func (l *lines) await(t *testing.T, want string, done <-chan struct{}) string {
	t.Helper()
	line, ok := l.find(want, done)
	if !ok {
		t.Fatalf("no line with %q in:\n%s", want, l.String())
	}
	return line
}

func (l *lines) find(want string, done <-chan struct{}) (line string, ok bool) {
	ended := false
	wake := func() {
		l.mu.Lock()
		ended = true
		l.mu.Unlock()
		l.cond.Broadcast()
	}
	timer := time.AfterFunc(time.Minute, wake)
	defer timer.Stop()
	go func() {
		<-done
		wake()
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for line := range strings.Lines(l.buf.String()) {
			if strings.Contains(line, want) && strings.HasSuffix(line, "\n") {
				return line, true
			}
		}
		if ended {
			return "", false
		}
		l.cond.Wait()
	}
}

// call sends a request and returns the status and the answer.
func call(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}
