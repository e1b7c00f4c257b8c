package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pgName is both the superuser and the database of a private Postgres.
const pgName = "commma"

// PostgresOptions of StartPostgres. Only Dir is required.
type PostgresOptions struct {
	Dir  string       // belongs to this server alone; made if missing
	Fast bool         // for tests: faster; survives a kill -9, but not a crash of the machine
	Log  *slog.Logger // debug lines about starts and stops; default: none
	// Notify is told, in a line for the user, what takes time. Default: nobody is.
	Notify func(line string)
	// Settings are further server settings, such as max_connections.
	Settings map[string]string
}

// Postgres is a private server. Its methods are safe for concurrent use.
type Postgres struct {
	server
	o    PostgresOptions
	prog program
}

// pgSteps stop a Postgres: fast shutdown (clients are disconnected, a checkpoint is made), immediate shutdown (the next
// start recovers).
var pgSteps = []step{{syscall.SIGINT, 30 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}}

// StartPostgres starts a Postgres on its directory, which is set up first if it is new, and waits until it serves. ctx
// bounds the start only. The caller must Stop it.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	h, err := openHome(o.Dir)
	if err != nil {
		return nil, err
	}
	want, err := dataMajor(h)
	if err != nil {
		return nil, err
	}
	p := &Postgres{o: o}
	if p.prog, err = findPostgres(ctx, want); err != nil {
		return nil, err
	}
	p.server = server{name: "Postgres", home: h, steps: pgSteps, log: orDiscard(o.Log), command: p.serverCommand, ready: p.ask}
	if o.Fast {
		p.after = func() { removeSharedMemory(h.data()) }
	}
	if p.state, err = h.loadState(want == 0); err != nil {
		return nil, err
	}
	if want == 0 {
		if err := p.initdb(ctx); err != nil {
			return nil, err
		}
	}
	if err := h.setTag(); err != nil {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	if err := p.createDatabase(ctx); err != nil {
		return nil, errors.Join(err, p.Kill(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// orDiscard makes the log optional.
func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// dataMajor is the major version that made the data directory, 0 if there is none yet.
func dataMajor(h *home) (int, error) {
	text, err := os.ReadFile(filepath.Join(h.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read version of data directory: %w", err)
	}
	major, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return 0, fmt.Errorf("read version of data directory: %w", err)
	}
	return major, nil
}

// newData is where initdb works. It becomes data/ only when it is complete, so that a set-up that was killed is simply
// made again.
const newData = "data.new"

// initdb sets up the data directory.
func (p *Postgres) initdb(ctx context.Context) error {
	p.o.Notify(fmt.Sprintf("setting up a private Postgres %d in %s", p.prog.major, p.home.dir))
	if err := os.RemoveAll(filepath.Join(p.home.dir, newData)); err != nil {
		return fmt.Errorf("clear data directory: %w", err)
	}
	if err := p.home.makeData(newData); err != nil {
		return err
	}
	if err := p.runInitdb(ctx); err != nil {
		return fmt.Errorf("set up Postgres: %w", err)
	}
	if err := os.Rename(filepath.Join(p.home.dir, newData), p.home.data()); err != nil {
		return fmt.Errorf("set up Postgres: %w", err)
	}
	return nil
}

// runInitdb fills data.new. The locale C compares text by bytes, as the Go code does, and never changes with an update of
// the system's libraries.
func (p *Postgres) runInitdb(ctx context.Context) error {
	cmd, path, err := p.home.command(syscall.SIGKILL, newData, filepath.Join(p.prog.dir, "initdb"))
	if err != nil {
		return err
	}
	defer func() { closeAll(cmd.ExtraFiles) }()
	pw, pwPath, err := p.passwordFile(cmd)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(pw) }()
	cmd.Args = append(cmd.Args, "-D", path, "--pwfile="+pwPath, "--username="+pgName, "--encoding=UTF8", "--locale=C",
		"--auth=scram-sha-256", "--no-instructions")
	if p.o.Fast {
		// Small log segments: less to write for a database that lives for seconds.
		cmd.Args = append(cmd.Args, "--no-sync", "--wal-segsize=1")
	} else {
		cmd.Args = append(cmd.Args, "--data-checksums")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	c, err := startChild(cmd)
	if err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = c.cmd.Process.Kill() // its helpers end when they lose it
		<-c.done
		return ctx.Err()
	}
	if c.err != nil {
		return fmt.Errorf("initdb: %w:\n%s", c.err, strings.TrimSpace(out.String()))
	}
	return nil
}

// passwordFile writes the password where initdb can read it, and returns its path for us and for initdb: as somebody
// else, initdb gets it as one more descriptor, like its data directory.
func (p *Postgres) passwordFile(cmd *exec.Cmd) (ours, theirs string, err error) {
	ours = filepath.Join(p.home.dir, "password.new")
	if err := writeSecret(ours, []byte(p.state.Password+"\n")); err != nil {
		return "", "", err
	}
	if err := p.home.id.own(ours); err != nil {
		return "", "", err
	}
	if len(cmd.ExtraFiles) == 0 {
		return ours, ours, nil
	}
	f, err := os.Open(ours)
	if err != nil {
		return "", "", fmt.Errorf("open password file: %w", err)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	return ours, "/proc/self/fd/4", nil
}

// serverCommand is the server process itself.
func (p *Postgres) serverCommand(port int) (*exec.Cmd, error) {
	if err := p.removeStalePidFile(); err != nil {
		return nil, err
	}
	cmd, path, err := p.home.command(syscall.SIGINT, "data", filepath.Join(p.prog.dir, "postgres"))
	if err != nil {
		return nil, err
	}
	cmd.Args = append(cmd.Args, "-D", path)
	set := func(key, value string) { cmd.Args = append(cmd.Args, "-c", key+"="+value) }
	set("cluster_name", p.home.tag)
	set("listen_addresses", "127.0.0.1")
	set("port", strconv.Itoa(port))
	set("unix_socket_directories", "") // the path of a socket may be 107 bytes at most; a data directory's may not
	set("timezone", "UTC")
	set("log_timezone", "UTC")
	// What a statement carried may be somebody's file name: neither values nor statements go into the log.
	set("log_error_verbosity", "terse")
	set("log_min_error_statement", "panic")
	if p.o.Fast {
		// Commits still reach the operating system before they are answered: tests kill servers and count what is left.
		set("fsync", "off")
		set("full_page_writes", "off")
		set("jit", "off")
		set("max_connections", "400")
		set("min_wal_size", "8MB") // of the small segments
		// In the data directory, with which it goes: elsewhere it would outlive a server that is killed.
		set("dynamic_shared_memory_type", "mmap")
	}
	for key, value := range p.o.Settings {
		set(key, value)
	}
	return cmd, nil
}

// removeStalePidFile removes the pid file of a postmaster that was killed. Postgres does so itself, unless another
// process has that id by now, or a zombie still has it. It is safe because nothing tagged runs any more, and nobody
// else starts a server on a directory whose lock we hold.
func (p *Postgres) removeStalePidFile() error {
	path := filepath.Join(p.home.data(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pid file: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if pid, err := strconv.Atoi(first); err == nil && pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale pid file: %w", err)
	}
	return nil
}

// URL connects to the database named commma as the superuser.
func (p *Postgres) URL() string { return p.DatabaseURL(pgName) }

// DatabaseURL is the URL of another database of this server.
func (p *Postgres) DatabaseURL(database string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(pgName, p.state.Password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(p.state.Port)), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// ask connects and checks that the server that answers is ours: another one may have been given the port.
func (p *Postgres) ask(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.DatabaseURL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var tag string
	if err := conn.QueryRow(ctx, "SHOW cluster_name").Scan(&tag); err != nil {
		return err
	}
	if tag != p.home.tag {
		return errors.New("another server answers on its port")
	}
	return nil
}

// createDatabase makes the database of URL unless it exists.
func (p *Postgres) createDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.DatabaseURL("postgres"))
	if err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{pgName}.Sanitize())
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P04" { // duplicate_database
		return nil
	}
	if err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	return nil
}
