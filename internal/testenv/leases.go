package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// leases is the databases of a Redis that other test binaries, and people, use at the same time. Database 0 says who
// has which: a key per database with a random value, which expires if its owner was killed; and a set of the databases
// that tests have written to, and which therefore may be flushed. A database that is not empty and not in that set is
// somebody's data and is never touched.
type leases struct {
	url   string
	count int
}

const (
	leaseKey = "{commma:testenv}:lease:" // and the number of the database
	usedKey  = "{commma:testenv}:used"
	// leaseTTL is longer than any test binary may run (see the Makefile), as nobody renews a lease.
	leaseTTL = 30 * time.Minute
	// leaseWait bounds waiting for a database while all are taken.
	leaseWait = 2 * time.Minute
)

// newLeases looks at the server that the environment names.
func newLeases(ctx context.Context, url string) (databases, error) {
	l := leases{url: onPath(url, "0"), count: 16} // the number that servers have unless they are told otherwise
	err := withRedis(l.url, func(c *redis.Client) error {
		if err := c.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("reach the Redis of %s: %w", envRedis, err)
		}
		// Managed servers refuse CONFIG: then it is the default.
		if n, err := strconv.Atoi(c.ConfigGet(ctx, "databases").Val()["databases"]); err == nil {
			l.count = n
		}
		return nil
	})
	if err == nil && l.count < 2 {
		err = fmt.Errorf("use the Redis of %s: it has one logical database only", envRedis)
	}
	return l, err
}

// take implements databases. It goes through all numbers until one is free: tests wait for each other here when there are
// more of them than databases.
func (l leases) take(ctx context.Context) (string, func(context.Context) error, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseWait)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	owner := rand.Text()
	for {
		for n := 1; n < l.count; n++ {
			ok, err := l.tryTake(ctx, n, owner)
			if err != nil {
				return "", nil, fmt.Errorf("lease a Redis database: %w", err)
			}
			if ok {
				return l.database(n), func(ctx context.Context) error { return l.giveBack(ctx, n, owner) }, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", nil, fmt.Errorf("lease a Redis database: all %d are in use: %w", l.count-1, ctx.Err())
		case <-tick.C:
		}
	}
}

func (l leases) database(n int) string { return onPath(l.url, strconv.Itoa(n)) }

// tryTake takes database n if nobody has it and it is ours to use, and empties it.
func (l leases) tryTake(ctx context.Context, n int, owner string) (bool, error) {
	var taken bool
	err := withRedis(l.url, func(c *redis.Client) error {
		var err error
		if taken, err = c.SetNX(ctx, leaseKey+strconv.Itoa(n), owner, leaseTTL).Result(); err != nil || !taken {
			return err
		}
		if taken, err = l.mayUse(ctx, c, n); err != nil || !taken {
			return errors.Join(err, l.release(ctx, c, n, owner))
		}
		return flush(ctx, l.database(n))
	})
	return taken && err == nil, err
}

// mayUse says whether database n is empty, and if so notes that what will be in it is ours; or whether that was noted.
func (l leases) mayUse(ctx context.Context, c *redis.Client, n int) (bool, error) {
	used, err := c.SIsMember(ctx, usedKey, n).Result()
	if err != nil || used {
		return used, err
	}
	var size int64
	err = withRedis(l.database(n), func(c *redis.Client) (err error) {
		size, err = c.DBSize(ctx).Result()
		return err
	})
	if err != nil || size > 0 {
		return false, err
	}
	return true, c.SAdd(ctx, usedKey, n).Err()
}

// giveBack empties the database first: from the moment the lease is gone, another test may use it.
func (l leases) giveBack(ctx context.Context, n int, owner string) error {
	if err := flush(ctx, l.database(n)); err != nil {
		return err
	}
	return withRedis(l.url, func(c *redis.Client) error {
		// Empty again, it is anybody's.
		return errors.Join(c.SRem(ctx, usedKey, n).Err(), l.release(ctx, c, n, owner))
	})
}

// release deletes the lease if it is still the owner's.
func (l leases) release(ctx context.Context, c *redis.Client, n int, owner string) error {
	key := leaseKey + strconv.Itoa(n)
	value, err := c.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) || value != owner {
		return nil
	}
	if err != nil {
		return err
	}
	return c.Del(ctx, key).Err()
}
