package redisconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// Guard bounds what a request spends on a Redis that it can do without. After a failure Redis is left alone for a while, so
// that a server that hangs costs one request its timeout and the next ones nothing. It is safe for concurrent use.
type Guard struct {
	breaker *gobreaker.CircuitBreaker[struct{}]
	timeout time.Duration
}

// errGivenUp marks a failure that is not Redis's: the request itself ended.
var errGivenUp = errors.New("the request was given up")

// NewGuard makes a guard that waits for timeout at most, and leaves Redis alone for pause after a failure.
func NewGuard(name string, timeout, pause time.Duration) *Guard {
	return &Guard{timeout: timeout, breaker: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         name,
		MaxRequests:  1,
		Timeout:      pause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures > 0 },
		IsSuccessful: func(err error) bool { return err == nil || Answered(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errGivenUp) },
	})}
}

// Do calls fn under the guard's timeout, or fails at once while Redis is left alone.
func (g *Guard) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	_, err := g.breaker.Execute(func() (struct{}, error) {
		step, cancel := context.WithTimeout(ctx, g.timeout)
		defer cancel()
		err := fn(step)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errGivenUp, err)
		}
		return struct{}{}, err
	})
	return err
}

// LeftAlone says whether err means that Redis was not even asked.
func LeftAlone(err error) bool {
	return errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}

// Answered says that Redis is there and has read the command, though it did not do what it says (it may be full). A server
// that is still loading, or a cluster without a master, answers too, but does not serve.
func Answered(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	return !redis.IsLoadingError(err) && !redis.IsClusterDownError(err) && !redis.IsMasterDownError(err) &&
		!redis.IsMaxClientsError(err)
}
