package testenv

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/localstack"
)

// envRedis names a Redis server to use. Logical databases of it that are empty are filled and flushed.
const envRedis = "COMMMA_TEST_REDIS_URL"

// databases hands out empty logical databases of one Redis.
type databases interface {
	// take returns the URL of one, and what gives it back.
	take(ctx context.Context) (url string, giveBack func(context.Context) error, err error)
}

var sharedRedis once[databases]

// newDatabases finds or starts the server.
func newDatabases(ctx context.Context) (databases, error) {
	if url := os.Getenv(envRedis); url != "" {
		return newLeases(ctx, url)
	}
	s, err := startRedis(ctx, false)
	if err != nil {
		return nil, err
	}
	AtExit(s.Stop)
	p := pool{url: s.URL(), free: make(chan int, localstack.FastDatabases)}
	for n := range localstack.FastDatabases {
		p.free <- n
	}
	return p, nil
}

// RedisURL is an empty logical database that belongs to this test alone. It is flushed after the test.
func RedisURL(t testing.TB) string {
	t.Helper()
	d, err := sharedRedis.get(t, newDatabases)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	url, giveBack, err := d.take(t.Context())
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	onCleanup(t, giveBack)
	return url
}

// pool is the databases of a server that this test binary has to itself.
type pool struct {
	url  string
	free chan int
}

// take implements databases.
func (p pool) take(ctx context.Context) (string, func(context.Context) error, error) {
	select {
	case n := <-p.free:
		url := onPath(p.url, strconv.Itoa(n))
		return url, func(ctx context.Context) error {
			defer func() { p.free <- n }()
			return flush(ctx, url)
		}, nil
	case <-ctx.Done():
		return "", nil, fmt.Errorf("wait for a free Redis database: %w", ctx.Err())
	}
}

func flush(ctx context.Context, url string) error {
	return withRedis(url, func(c *redis.Client) error {
		if err := c.FlushDB(ctx).Err(); err != nil {
			return fmt.Errorf("flush Redis database: %w", err)
		}
		return nil
	})
}

func withRedis(url string, fn func(*redis.Client) error) error {
	o, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	return fn(c)
}
