package recapmail

import (
	"context"
	"sync"
	"time"

	"github.com/commma/commma/internal/clock"
)

// rate lets so many through per second, evenly. The zero value lets everybody through.
type rate struct {
	clock clock.Clock
	every time.Duration

	mu   sync.Mutex
	next time.Time
}

func newRate(c clock.Clock, perSecond float64) *rate {
	if perSecond <= 0 {
		return &rate{}
	}
	return &rate{clock: c, every: time.Duration(float64(time.Second) / perSecond)}
}

// wait waits for a turn.
func (r *rate) wait(ctx context.Context) error {
	if r.every <= 0 {
		return ctx.Err()
	}
	return clock.Sleep(ctx, r.take(r.clock.Now()))
}

// take takes the next turn and says how far off it is.
func (r *rate) take(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next.Before(now) {
		r.next = now
	}
	in := r.next.Sub(now)
	r.next = r.next.Add(r.every)
	return in
}

// giveBack gives a turn back that was not used. Whoever comes next has it, even at the moment of another: what holds is the
// number of turns.
func (r *rate) giveBack() {
	if r.every <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = r.next.Add(-r.every)
}
