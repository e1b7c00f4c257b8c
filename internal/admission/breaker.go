package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// errAbandoned marks a failure that is not Redis's: the request was given up while it waited.
var errAbandoned = errors.New("the request was given up")

// newBreaker gives Redis up at the first failure: it came after the client's own retries, or after the whole deadline.
// Then one request at a time may try again, every BreakerOpen.
func (a *Admitter) newBreaker() *gobreaker.CircuitBreaker[reply] {
	return gobreaker.NewCircuitBreaker[reply](gobreaker.Settings{
		Name:          "redis",
		MaxRequests:   1,
		Timeout:       a.cfg.BreakerOpen,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures > 0 },
		IsSuccessful:  func(err error) bool { return err == nil || answered(err) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errAbandoned) },
		OnStateChange: func(_ string, from, to gobreaker.State) { a.noteBreaker(from, to) },
	})
}

// try takes one step that asks Redis, under its deadline, unless Redis is given up for the moment. A failure has been
// noted when it returns.
func (a *Admitter) try(ctx context.Context, step Step, timeout time.Duration, fn func(context.Context) (reply, error)) (reply, error) {
	r, err := a.breaker.Execute(func() (reply, error) {
		stepCtx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		r, err := fn(stepCtx)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errAbandoned, err)
		}
		return r, err
	})
	a.noteFailure(ctx, step, err)
	return r, err
}

// answered says that Redis is there and has read the command, though it did not do what it says. A server that is still
// loading, or a cluster without a master, says so too, but there the client waits and tries again for as long as it may.
func answered(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	return !redis.IsLoadingError(err) && !redis.IsClusterDownError(err) && !redis.IsMasterDownError(err) &&
		!redis.IsMaxClientsError(err)
}

// noteFailure reports a step that was tried and failed. Redis is not tried while it is given up, so the log has one line
// for each time that it was.
func (a *Admitter) noteFailure(ctx context.Context, step Step, err error) {
	skipped := errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
	if err == nil || skipped || errors.Is(err, errAbandoned) {
		return
	}
	a.deps.Observer.RedisFailure(step)
	a.deps.Log.WarnContext(ctx, "admission went on without Redis", "step", string(step), "err", err)
}

// noteBreaker reports when Redis is given up and when it is back; a failed probe changes nothing.
func (a *Admitter) noteBreaker(from, to gobreaker.State) {
	switch {
	case from == gobreaker.StateClosed && to == gobreaker.StateOpen:
		a.deps.Observer.Breaker(true)
	case to == gobreaker.StateClosed:
		a.deps.Observer.Breaker(false)
	}
}

// honoursDeadlines says whether the client gives up when a context does. Clients of other kinds are taken at their word.
func honoursDeadlines(rdb redis.UniversalClient) bool {
	switch c := rdb.(type) {
	case *redis.Client:
		return c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		return c.Options().ContextTimeoutEnabled
	}
	return rdb != nil
}
