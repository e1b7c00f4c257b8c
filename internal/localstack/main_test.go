package localstack_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/commma/commma/internal/localstack"
)

// parentEnv names a data directory: the test binary then plays a program that runs a stack on it, to be killed.
const parentEnv = "LOCALSTACK_TEST_PARENT"

func TestMain(m *testing.M) {
	ctx := context.Background()
	if dir := os.Getenv(parentEnv); dir != "" {
		os.Exit(playParent(ctx, dir))
	}
	if err := localstack.Ensure(ctx, func(line string) { fmt.Println(line) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// playParent runs a stack until its standard input ends.
func playParent(ctx context.Context, dir string) int {
	s, err := localstack.Start(ctx, localstack.Options{DataDir: dir})
	if err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	fmt.Println("ready", s.DatabaseURL(), s.RedisURL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Stop(ctx); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// parent is a running playParent.
type parent struct {
	cmd              *exec.Cmd
	stdin            io.WriteCloser
	database, redisU string
}

// startParent starts this binary again as the owner of a stack. With an attr it runs as somebody else, who may not be
// able to reach the binary by its path, and so is given it as a descriptor.
func startParent(t *testing.T, dir string, attr *syscall.SysProcAttr) *parent {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer func() { _ = self.Close() }()
	p := &parent{cmd: exec.Command("/proc/self/fd/3")}
	p.cmd.Args = []string{"localstack.test"}
	p.cmd.ExtraFiles = []*os.File{self}
	p.cmd.Env = append(os.Environ(), parentEnv+"="+dir)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = attr
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { p.kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	words := strings.Fields(line)
	require.Equal(t, "ready", words[0], line)
	p.database, p.redisU = words[1], words[2]
	return p
}

// kill ends the parent without warning.
func (p *parent) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop ends the parent in order.
func (p *parent) stop() error {
	_ = p.stdin.Close()
	return p.cmd.Wait()
}

func start(t *testing.T, dir string) *localstack.Stack {
	t.Helper()
	s, err := localstack.Start(t.Context(), localstack.Options{DataDir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
	return s
}

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	v, err := tryQuery[T](t.Context(), url, sql)
	require.NoError(t, err)
	return v
}

func tryQuery[T any](ctx context.Context, url, sql string) (T, error) {
	var v T
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return v, err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return v, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
}

// exec runs one statement.
func execSQL(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	o.MaxRetries = -1
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
