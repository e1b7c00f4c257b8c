package store

import (
	"context"
	"fmt"
	"time"
)

// Turns bounds how many reads that take long run at a time: everything else needs the pool too.
type Turns struct {
	taken chan struct{} // holds an element for each that runs
	wait  time.Duration
}

// NewTurns lets n run at a time, and another wait for so long.
func NewTurns(n int, wait time.Duration) *Turns {
	return &Turns{taken: make(chan struct{}, n), wait: wait}
}

// Do runs fn when it is its turn. It fails with busy when that does not come in time, or with the context's error. It comes
// before a connection is taken.
func (t *Turns) Do(ctx context.Context, busy error, fn func() error) error {
	timer := time.NewTimer(t.wait)
	defer timer.Stop()
	select {
	case t.taken <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait to read: %w", ctx.Err())
	case <-timer.C:
		return busy
	}
	defer func() { <-t.taken }()
	return fn()
}
