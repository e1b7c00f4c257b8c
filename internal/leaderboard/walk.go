package leaderboard

import (
	"context"

	"github.com/google/uuid"
)

// Place is one user's place on a board in Redis.
type Place struct {
	User    uuid.UUID
	Seconds int64
	Version int64 // the user's version that was published
}

// Walk calls fn for each place of a board in Redis, most seconds first, until fn returns false. It reads a page at a
// time: who moves meanwhile may be seen twice or not at all. whole is false when there is no whole board, or none any more.
func (b *Boards) Walk(ctx context.Context, board Board, fn func(Place) bool) (whole bool, err error) {
	for r := (request{kind: pageFirst, limit: MaxLimit, after: top}); ; r.kind = pageAfter {
		s, err := live{b.rdb}.page(ctx, board, r)
		if err != nil || s == nil {
			return false, err
		}
		for i := range s.rows {
			if !fn(Place{User: s.rows[i].user, Seconds: s.rows[i].seconds, Version: s.rows[i].version}) {
				return true, nil
			}
		}
		if s.next == nil {
			return true, nil
		}
		r.after = s.rows[len(s.rows)-1].place
	}
}
