package recap

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// Ranks are the ladders of a week and of the week before, as they were when they were read.
type Ranks struct{ this, prior Ladder }

func (r *Ranks) apply(to *Recap) {
	to.Rank, to.PriorRank = r.this.Rank(to.Seconds), r.prior.Rank(to.PriorSeconds)
}

// Ranks reads the ladders that ranks of many users in a week are told from.
func (r *Reader) Ranks(ctx context.Context, w Week) (*Ranks, error) {
	var ranks Ranks
	for week, ladder := range map[Week]*Ladder{w: &ranks.this, w.Previous(): &ranks.prior} {
		steps, err := dbsqlc.New().RecapLadder(ctx, r.db, week.Start())
		if err != nil {
			return nil, fmt.Errorf("read ranks: %w", err)
		}
		for _, s := range steps {
			ladder.add(s.Seconds, s.Users)
		}
	}
	return &ranks, nil
}

// rank counts the ranks of one user, who has none on off.
func (r *Reader) rank(ctx context.Context, tx pgx.Tx, to *Recap, off bool) error {
	if off {
		return nil
	}
	for _, of := range []struct {
		week    Week
		seconds int64
		rank    **int64
	}{{to.Week, to.Seconds, &to.Rank}, {to.Week.Previous(), to.PriorSeconds, &to.PriorRank}} {
		if of.seconds == 0 {
			continue
		}
		above, err := dbsqlc.New().RecapCountAbove(ctx, tx, of.week.Start(), of.seconds)
		if err != nil {
			return fmt.Errorf("count rank: %w", err)
		}
		rank := above + 1
		*of.rank = &rank
	}
	return nil
}
