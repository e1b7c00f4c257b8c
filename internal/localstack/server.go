package localstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// ErrNotRunning is returned when a signal is for a server that does not run.
var ErrNotRunning = errors.New("server is not running")

// server is what Postgres and Redis have in common: one child process, its directory and its port.
//
// Two locks: ops makes starting and stopping exclusive and is held while waiting; mu guards the fields below it for a
// moment only, so that Done and Err never wait for a Stop under way.
type server struct {
	name  string
	home  *home
	steps []step // how it is stopped
	log   *slog.Logger
	// command makes the process to start, with the log already opened for it.
	command func(port int) (*exec.Cmd, error)
	// after, if set, tidies up when all processes are gone.
	after func()
	// ready asks the server once whether it serves; an error means not yet.
	ready func(ctx context.Context) error

	ops sync.Mutex
	mu  sync.Mutex

	state   state
	child   *child
	wanted  bool  // the end of the child is our own doing
	logFrom int64 // where the log of this run begins
}

// startTimeout bounds a start, crash recovery included.
const startTimeout = 5 * time.Minute

// bindAttempts is how often a start is tried when its port is taken: between choosing and using it, another process can
// be faster.
const bindAttempts = 5

// start starts the server and waits until it serves. What was left over in its directory is stopped first.
func (s *server) start(ctx context.Context) error {
	s.ops.Lock()
	defer s.ops.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.clearLeftovers(ctx); err != nil {
		return err
	}
	var err error
	for range bindAttempts {
		if err = s.choosePort(); err != nil {
			return err
		}
		if err = s.startOnce(ctx); err == nil {
			s.log.DebugContext(ctx, "server started", "server", s.name, "port", s.port(), "pid", s.current().pid())
			return nil
		}
		if ctx.Err() != nil || portFree(s.port()) {
			return err
		}
	}
	return err
}

// clearLeftovers stops what an earlier run left behind: two servers on one directory would destroy it. A server
// that is in use is not among them where its owner, as Stack does, holds the lock of the directory.
func (s *server) clearLeftovers(ctx context.Context) error {
	n, err := stopTagged(ctx, s.home.tag, s.steps)
	if err != nil {
		return fmt.Errorf("stop %s left over by an earlier run: %w", s.name, err)
	}
	if n > 0 {
		s.log.DebugContext(ctx, "stopped a server left over by an earlier run", "server", s.name)
	}
	return nil
}

// choosePort keeps the remembered port while it is free, else takes another one and remembers that.
func (s *server) choosePort() error {
	if p := s.port(); p != 0 && portFree(p) {
		return nil
	}
	for range 1000 {
		p := firstPort + rand.IntN(lastPort-firstPort+1)
		if portFree(p) {
			s.mu.Lock()
			s.state.Port = p
			next := s.state
			s.mu.Unlock()
			return s.home.saveState(next)
		}
	}
	return fmt.Errorf("find a free port for %s on 127.0.0.1", s.name)
}

// startOnce starts the process and waits until it serves. If it does not, nothing of it is left.
func (s *server) startOnce(ctx context.Context) error {
	cmd, err := s.command(s.port())
	if err != nil {
		return err
	}
	log, from, err := s.home.openLog()
	if err != nil {
		closeAll(cmd.ExtraFiles)
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	c, err := startChild(cmd)
	closeAll(append(cmd.ExtraFiles, log))
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.mu.Lock()
	s.child, s.wanted, s.logFrom = c, false, from
	s.mu.Unlock()
	if err := s.waitReady(ctx, c); err != nil {
		// The caller's context may be over; a server that does not serve must go all the same.
		return errors.Join(err, s.killLocked(context.WithoutCancel(ctx)))
	}
	return nil
}

// waitReady waits until the server answers, or its process ends.
func (s *server) waitReady(ctx context.Context, c *child) error {
	var last error
	err := poll(ctx, func() (bool, error) {
		if c.ended() {
			return false, s.failure(c)
		}
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		last = s.ready(try)
		return last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("wait for %s: %w", s.name, errors.Join(err, last))
	}
	return err
}

// failure describes a process that ended by itself. Its log says why.
func (s *server) failure(c *child) error {
	s.mu.Lock()
	from := s.logFrom
	s.mu.Unlock()
	cause := c.err
	if cause == nil {
		cause = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended: %w; the end of %s:\n%s", s.name, cause, s.home.logPath(), s.home.logTail(from))
}

// port is the port of the next or present start, 0 before the first one.
func (s *server) port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Port
}

// current is the latest process, running or not.
func (s *server) current() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// Done is closed when the server's process has ended, be it by Stop, Kill or by itself; Err tells which. A server that
// was started again has a new channel.
func (s *server) Done() <-chan struct{} {
	return s.current().done
}

// Err is nil while the server runs and after Stop or Kill; after an unexpected end it says what happened.
func (s *server) Err() error {
	s.mu.Lock()
	c, wanted := s.child, s.wanted
	s.mu.Unlock()
	if !c.ended() || wanted {
		return nil
	}
	return s.failure(c)
}

// Stop stops the server in order and waits for its end. When ctx ends first, harsher means are used at once, and it
// still returns only after all its processes are gone. A server that does not run is fine.
func (s *server) Stop(ctx context.Context) error {
	s.ops.Lock()
	defer s.ops.Unlock()
	return s.stopLocked(ctx)
}

// stopLocked is Stop for a caller that holds ops. The first step is for the main process alone, whose end is then waited
// for without looking through the process table.
func (s *server) stopLocked(ctx context.Context) error {
	c := s.expectEnd()
	first := s.steps[0]
	if c.ended() || c.cmd.Process.Signal(first.sig) != nil {
		return s.stopRest(ctx, nil)
	}
	// A process that was stopped (SIGSTOP) acts on a signal only when it goes on.
	if list, err := tagged(s.home.tag); err == nil {
		_ = send(list, syscall.SIGCONT)
	}
	timer := time.NewTimer(first.wait)
	defer timer.Stop()
	select {
	case <-c.done:
		return s.stopRest(ctx, nil)
	case <-ctx.Done():
	case <-timer.C:
	}
	return s.stopRest(ctx, s.steps[1:])
}

// stopRest makes sure that nothing of the server is left, and that its main process was reaped.
func (s *server) stopRest(ctx context.Context, steps []step) error {
	if _, err := stopTagged(ctx, s.home.tag, steps); err != nil {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	<-s.current().done
	if s.after != nil {
		s.after()
	}
	return nil
}

// expectEnd notes that the end of the present process is wanted, before it is brought about, so that Err never reports it
// as an accident.
func (s *server) expectEnd() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = true
	return s.child
}

// Kill ends all processes of the server by SIGKILL, as a crash of the machine would, and waits until they are gone.
func (s *server) Kill(ctx context.Context) error {
	s.ops.Lock()
	defer s.ops.Unlock()
	return s.killLocked(ctx)
}

// killLocked is Kill for a caller that holds ops.
func (s *server) killLocked(ctx context.Context) error {
	c := s.expectEnd()
	// The main process first, so that it starts nothing more. An error means that it has ended already.
	_ = c.cmd.Process.Kill()
	return s.stopRest(ctx, nil)
}

// Restart stops the server if it runs and starts it on the same port.
func (s *server) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.start(ctx)
}

// Signal sends sig to all processes of the server: SIGSTOP makes it hang, SIGCONT go on.
func (s *server) Signal(sig os.Signal) error {
	unix, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %s: %v is not a Unix signal", s.name, sig)
	}
	s.ops.Lock()
	defer s.ops.Unlock()
	list, err := tagged(s.home.tag)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return ErrNotRunning
	}
	return send(list, unix)
}
