package localstack

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// child is one run of a server process.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was reaped
	err  error         // how it ended; read it only after done
}

// startChild starts cmd on a thread that lives as long as the process does: see the package comment.
func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-c.done
		return nil, err
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// ended says whether the process has ended and was reaped, without waiting.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// process is one entry of the process table.
type process struct {
	pid, parent int
	name        string
}

// serverNames are the names of the programs this package starts. A process that merely mentions a tag, such as a grep
// for it, is not one of ours.
var serverNames = []string{"postgres", "redis-server", "valkey-server"}

// tagged lists the living processes of the server with this tag.
func tagged(tag string) ([]process, error) {
	list, err := listProcesses(tag)
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	return slices.DeleteFunc(list, func(p process) bool { return !slices.Contains(serverNames, p.name) }), nil
}

// roots are the processes of the list whose parent is not in it: the postmaster as long as it lives.
func roots(list []process) []process {
	return slices.DeleteFunc(slices.Clone(list), func(p process) bool {
		return slices.ContainsFunc(list, func(q process) bool { return q.pid == p.parent })
	})
}

// send signals every process of the list. One that is gone by now is fine.
func send(list []process, sig syscall.Signal) error {
	var errs []error
	for _, p := range list {
		if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("signal process %d: %w", p.pid, err))
		}
	}
	return errors.Join(errs...)
}

// poll calls fn every few milliseconds until it says true or fails, or ctx ends.
func poll(ctx context.Context, fn func() (bool, error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := fn()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// step is one rung of the ladder by which a server is stopped.
type step struct {
	sig  syscall.Signal
	wait time.Duration
}

// stopTagged stops whatever runs under tag: the roots by each step's signal in turn, at last everything by SIGKILL. The
// end of ctx shortens the steps but leaves none out, so that nothing ever stays behind. It returns how many steps were
// needed: 0 when nothing was running.
func stopTagged(ctx context.Context, tag string, steps []step) (int, error) {
	for i, s := range append(slices.Clone(steps), step{syscall.SIGKILL, 10 * time.Second}) {
		list, err := tagged(tag)
		if err != nil || len(list) == 0 {
			return i, err
		}
		targets := list
		if s.sig != syscall.SIGKILL {
			targets = roots(list)
		} else {
			// Killing takes effect at once, whatever the caller's deadline: wait for it under one of its own.
			ctx = context.WithoutCancel(ctx)
		}
		// A process that was stopped (SIGSTOP) acts on a signal only when it goes on, and its parent may wait for it.
		if err := errors.Join(send(targets, s.sig), send(list, syscall.SIGCONT)); err != nil {
			return i, err
		}
		if gone, err := waitGone(ctx, tag, s); gone || err != nil {
			return i + 1, err
		}
	}
	return len(steps) + 1, fmt.Errorf("stop processes tagged %s: still there after SIGKILL", tag)
}

// waitGone waits until nothing runs under tag. While killing it kills again what was forked meanwhile.
func waitGone(ctx context.Context, tag string, s step) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	err := poll(ctx, func() (bool, error) {
		list, err := tagged(tag)
		if err == nil && s.sig == syscall.SIGKILL {
			err = send(list, s.sig)
		}
		return len(list) == 0, err
	})
	if ctx.Err() != nil {
		return false, nil
	}
	return err == nil, err
}
