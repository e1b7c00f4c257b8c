package admission

import (
	"time"

	"github.com/go-redis/redis_rate/v10"
)

// Scope is a kind of request that is limited by itself.
type Scope string

// The scopes of requests. scopeFailedAuth counts failures and belongs to addresses.
const (
	ScopeIngest     Scope = "ingest"
	ScopeRead       Scope = "read"
	ScopeWrite      Scope = "write"
	scopeFailedAuth Scope = "auth"
)

// LimitState is where a user, or an address, stands with a limit: what X-RateLimit-* and Retry-After say. A Limit of 0
// means that there is none.
type LimitState struct {
	Limit      int           // requests per hour, also the largest burst
	Remaining  int           // requests that would be let through at once
	ResetAt    time.Time     // when Remaining will be Limit again
	RetryAfter time.Duration // when Limited: whole seconds, rounded up, at least one
	Limited    bool
}

// newLimitState rounds what a limiter says so that a client which obeys is let through: resetAfter and retryAfter up.
func newLimitState(perHour, remaining int, resetAfter time.Duration, now time.Time) LimitState {
	return LimitState{Limit: perHour, Remaining: max(remaining, 0), ResetAt: now.Add(ceilSecond(resetAfter))}
}

// limited is the state of a request that comes too early by retryAfter.
func (l LimitState) limited(retryAfter time.Duration) LimitState {
	l.Remaining, l.Limited = 0, true
	l.RetryAfter = max(ceilSecond(retryAfter), time.Second)
	return l
}

func fromRedis(perHour int, r *redis_rate.Result, now time.Time) LimitState {
	l := newLimitState(perHour, r.Remaining, r.ResetAfter, now)
	if r.Allowed > 0 {
		return l
	}
	return l.limited(r.RetryAfter)
}

func ceilSecond(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
