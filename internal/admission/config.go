package admission

import (
	"errors"
	"fmt"
	"time"
)

// Config bounds what is let through and how long a dependency is waited for.
type Config struct {
	// PerHour is how many requests a user, or an anonymous address, may send in each scope; 0 means no limit. As many
	// may come at once. A scope that is missing is not served.
	PerHour map[Scope]int
	// FailedAuthPerHour is how many failed authentications an address may cause before it is told to wait; 0 means no
	// limit.
	FailedAuthPerHour int
	// RedisTimeout bounds all that one request asks of Redis.
	RedisTimeout time.Duration
	// PostgresTimeout bounds what one request asks of Postgres.
	PostgresTimeout time.Duration
	// AuthTTL is how long a token's hash stays cached. Clients upload every minute, so it is well above that; and a reader,
	// whose mode is cached no longer than a minute, is noted as seen when it ends, so it is no more than five.
	AuthTTL time.Duration
	// BreakerOpen is how long Redis is left alone after it failed.
	BreakerOpen time.Duration
	// LocalKeys is how many users, and how many addresses, a process limits by itself at most.
	LocalKeys int
}

// DefaultConfig is the configuration of the public service.
func DefaultConfig() Config {
	return Config{
		PerHour:           map[Scope]int{ScopeIngest: 1000, ScopeRead: 300, ScopeWrite: 300},
		FailedAuthPerHour: 20,
		RedisTimeout:      500 * time.Millisecond,
		PostgresTimeout:   3 * time.Second,
		AuthTTL:           5 * time.Minute,
		BreakerOpen:       2 * time.Second,
		LocalKeys:         100_000,
	}
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	for scope, n := range c.PerHour {
		if n < 0 {
			return fmt.Errorf("limit of %s: %d is negative", scope, n)
		}
	}
	switch {
	case c.FailedAuthPerHour < 0:
		return fmt.Errorf("limit of failed authentications: %d is negative", c.FailedAuthPerHour)
	case c.RedisTimeout <= 0 || c.PostgresTimeout <= 0 || c.BreakerOpen <= 0:
		return errors.New("admission timeouts must be positive")
	case c.AuthTTL <= 0:
		return errors.New("time to live of cached tokens must be positive")
	case c.LocalKeys <= 0:
		return errors.New("number of local limits must be positive")
	}
	return nil
}
