// Package clock is the only place that asks the operating system for the time of day. Everything else is given a Clock,
// so that tests decide what time it is.
package clock

import (
	"context"
	"sync"
	"time"
)

// Clock tells the time.
type Clock interface {
	// Now is the present instant. Its time zone is unspecified: convert at the edge.
	Now() time.Time
}

// System is the operating system's clock.
type System struct{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now() }

// Sleep pauses for d by the operating system's clock, and returns the context's error when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Left is how long ctx has until its deadline, at most d and at least nothing, by the operating system's clock: that is the
// one by which contexts end.
func Left(ctx context.Context, d time.Duration) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(at))
	}
	return max(d, 0)
}

// After is d from now by the operating system's clock, by which connections time out.
func After(d time.Duration) time.Time { return time.Now().Add(d) }

// Manual is a clock that moves only when told to. It is safe for concurrent use.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual is a Manual clock that stands at now.
func NewManual(now time.Time) *Manual { return &Manual{now: now} }

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Set moves the clock to now, forwards or backwards.
func (m *Manual) Set(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// Advance moves the clock by d.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}
