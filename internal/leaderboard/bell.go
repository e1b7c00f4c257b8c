package leaderboard

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// bellKey stands in Redis while a reader waits for a board to be built.
const bellKey = "lb:wanted"

// bellLife ends a ring that nobody answered. A reader that still misses the board rings again.
const bellLife = time.Hour

// Bell lets a reader that missed a board ask whoever builds boards, in whatever process. So nobody has to look for missing
// boards while nobody reads, and one command finds that nothing is wanted.
type Bell struct {
	rdb redis.UniversalClient
}

// NewBell makes a Bell.
func NewBell(rdb redis.UniversalClient) Bell { return Bell{rdb} }

// Ring asks for a build.
func (b Bell) Ring(ctx context.Context) error {
	if err := b.rdb.Set(ctx, bellKey, "", bellLife).Err(); err != nil {
		return fmt.Errorf("ask for a build of boards: %w", away(err))
	}
	return nil
}

// Answer says whether somebody rang since the last time, and takes the ring.
func (b Bell) Answer(ctx context.Context) (bool, error) {
	n, err := b.rdb.Del(ctx, bellKey).Result()
	if err != nil {
		return false, fmt.Errorf("see whether boards are wanted: %w", away(err))
	}
	return n == 1, nil
}
