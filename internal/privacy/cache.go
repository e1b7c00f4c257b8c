package privacy

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
)

// DefaultTTL is how long an entry lives: the longest that a stale one can cost detail.
const DefaultTTL = time.Minute

//go:embed lua/put.lua
var putSource string

var putScript = redis.NewScript(putSource)

// Entry is a mode and the version of the user that it was read or written at.
type Entry struct {
	Version int64
	Mode    activity.Mode
}

// String is the entry as it is cached.
func (e Entry) String() string { return strconv.FormatInt(e.Version, 10) + ":" + string(e.Mode) }

// Parse reads a cached entry. It is false for anything that String did not write, which is then as good as not cached.
func Parse(s string) (Entry, bool) {
	version, name, found := strings.Cut(s, ":")
	if !found {
		return Entry{}, false
	}
	v, err := strconv.ParseUint(version, 10, 63)
	if err != nil {
		return Entry{}, false
	}
	mode, err := activity.ParseMode(name)
	if err != nil {
		return Entry{}, false
	}
	return Entry{Version: int64(v), Mode: mode}, true
}

// Cache is the users' modes in Redis. It sets no deadlines of its own: the context's bound every call.
type Cache struct {
	rdb    redis.UniversalClient
	shards redisconn.Shards
	clock  clock.Clock
	ttl    time.Duration
}

// NewCache is a cache whose entries live for ttl; 0 means DefaultTTL.
func NewCache(rdb redis.UniversalClient, c clock.Clock, ttl time.Duration) *Cache {
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	return &Cache{rdb: rdb, shards: redisconn.ShardsOf(rdb), clock: c, ttl: ttl}
}

// Put writes the entry, unless a newer version is there; then it is false.
func (c *Cache) Put(ctx context.Context, userID uuid.UUID, e Entry) (bool, error) {
	n, err := putScript.Run(ctx, c.rdb, []string{Key(c.shards, userID)}, e.Version, string(e.Mode), c.ttl.Milliseconds()).Int()
	if err != nil {
		return false, fmt.Errorf("put mode: %w", err)
	}
	return n == 1, nil
}

// Get is the cached entry, and false when there is none.
func (c *Cache) Get(ctx context.Context, userID uuid.UUID) (Entry, bool, error) {
	s, err := c.rdb.Get(ctx, Key(c.shards, userID)).Result()
	if errors.Is(err, redis.Nil) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, fmt.Errorf("get mode: %w", err)
	}
	e, ok := Parse(s)
	return e, ok, nil
}

// Forget takes the mode of a deleted user out of the cache.
func (c *Cache) Forget(ctx context.Context, userID uuid.UUID) error {
	if err := c.rdb.Del(ctx, Key(c.shards, userID)).Err(); err != nil {
		return fmt.Errorf("forget cached mode: %w", err)
	}
	return nil
}

// Fill writes the entry if there is none. readAt is when the read of the database that found it began, by the cache's
// clock: an entry found too long ago is not written, because a change since then may have come and its own entry gone.
func (c *Cache) Fill(ctx context.Context, userID uuid.UUID, e Entry, readAt time.Time) (bool, error) {
	if !c.fresh(readAt) {
		return false, nil
	}
	filled, err := c.rdb.SetNX(ctx, Key(c.shards, userID), e.String(), c.ttl).Result()
	if err != nil {
		return false, fmt.Errorf("fill mode: %w", err)
	}
	return filled, nil
}

// QueueFill is Fill as one command of a pipeline, whose result the caller does not need.
func (c *Cache) QueueFill(ctx context.Context, pipe redis.Pipeliner, userID uuid.UUID, e Entry, readAt time.Time) {
	if c.fresh(readAt) {
		pipe.SetNX(ctx, Key(c.shards, userID), e.String(), c.ttl)
	}
}

// fresh says whether what was read at readAt may still be filled in. The entry that a change puts lives for ttl, so half
// of that leaves a filler as much time again to reach Redis.
func (c *Cache) fresh(readAt time.Time) bool { return c.clock.Now().Sub(readAt) <= c.ttl/2 }
