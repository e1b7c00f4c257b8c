package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrInUse says that another process runs a stack on the same data directory.
var ErrInUse = errors.New("another process is using it")

// Lock is a lock file held by this process. The kernel releases it when the process ends, however it ends: the
// descriptor is not inherited by children.
type Lock struct{ f *os.File }

// TryLock takes the lock file at path, or fails with ErrInUse at once.
func TryLock(path string) (*Lock, error) {
	// A link here would be somebody's attempt to have us open another file.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &Lock{f}, nil
}

// waitLock takes the lock file at path, waiting until it is free or ctx ends.
func waitLock(ctx context.Context, path string) (*Lock, error) {
	var l *Lock
	err := poll(ctx, func() (bool, error) {
		var err error
		l, err = TryLock(path)
		if errors.Is(err, ErrInUse) {
			return false, nil
		}
		return err == nil, err
	})
	return l, err
}

// Release gives the lock up. The file stays: removing it would let two processes hold "the" lock.
func (l *Lock) Release() error {
	// Closing is not enough: a process that is being started at this moment shares the descriptor until it executes
	// its program, and with it the lock.
	return errors.Join(syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN), l.f.Close())
}
