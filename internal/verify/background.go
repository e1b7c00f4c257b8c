package verify

import (
	"context"
	"time"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/leaderboard"
)

// UsersOver checks all users within about the given time, a page now and then.
func (c *Checker) UsersOver(ctx context.Context, over time.Duration, o Options) (Result, error) {
	users, err := aggregate.CountUsers(ctx, c.DB)
	if err != nil {
		return Result{}, err
	}
	o = o.withDefaults()
	o.Pause = paced(over, pages(users, o.Page))
	return c.Users(ctx, o)
}

// BoardsOver checks all boards within at most about the given time.
func (c *Checker) BoardsOver(ctx context.Context, over time.Duration, o Options) (Result, error) {
	users, err := aggregate.CountUsers(ctx, c.DB)
	if err != nil {
		return Result{}, err
	}
	boards, err := c.Builder.Written(ctx, c.Now)
	if err != nil {
		return Result{}, err
	}
	o = o.withDefaults()
	// More than there will be: nearly nobody is on every board of all languages, and each page is read from both sides.
	each := 2 * int64(len(leaderboard.Published(c.Clock.Now()))) * pages(users, o.Page)
	o.Pause = paced(over, int64(len(boards))+each)
	return c.CheckBoards(ctx, o)
}

func pages(n int64, size int) int64 { return n/int64(size) + 1 }

// paced spreads so many pages evenly over a time.
func paced(over time.Duration, pages int64) func(ctx context.Context) error {
	pause := over / time.Duration(max(pages, 1))
	return func(ctx context.Context) error { return clock.Sleep(ctx, pause) }
}
