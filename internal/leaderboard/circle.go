package leaderboard

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Circles reads the boards that some users make among themselves: the members of a group, or a user and those whom the user
// follows. They are computed from the totals in Postgres, which are the truth, so no copy has to follow members and modes;
// what they cost is how many users there are, and not how many there are on the board of everybody. It is safe for concurrent
// use.
type Circles struct {
	db    dbsqlc.DBTX
	langs []string // those that may be somebody's top language
}

// NewCircles makes a Circles over a pool. langs are the keys that have boards; nil means languages.Keys.
func NewCircles(db dbsqlc.DBTX, langs []string) *Circles {
	if langs == nil {
		langs = languages.Keys()
	}
	return &Circles{db: db, langs: langs}
}

// Page reads a part of the board of users as it is at now. Ranks and deltas are those among them. Whoever is on off, or does
// not exist, has no place; nobody else is on it. The error is ErrBadCursor or Postgres's.
func (c *Circles) Page(ctx context.Context, now time.Time, b Board, users []uuid.UUID, q Query) (Page, error) {
	req, err := q.request()
	if err != nil {
		return Page{}, err
	}
	rows, err := dbsqlc.New().LeaderboardAmong(ctx, c.db, dbsqlc.LeaderboardAmongParams{
		UserIDs: users, Period: b.Period, StartsOn: b.StartsOn, PreviousOn: previousOn(b), Lang: b.Lang, Me: req.me,
		Seconds: req.after.seconds, AfterID: req.after.user, Around: req.kind == pageAround, MaxRows: int64(req.limit),
		BoardLangs: c.langs,
	})
	if err != nil {
		return Page{}, fmt.Errorf("read board among users: %w", err)
	}
	s, deltas := among(rows, req, now)
	p := s.page(b, now)
	for i := range p.Entries {
		p.Entries[i].Delta = deltas[p.Entries[i].UserID]
	}
	if p.Me != nil {
		p.Me.Delta = deltas[p.Me.UserID]
	}
	return p, nil
}

// previousOn is when the span before a board's began, nil for all time.
func previousOn(b Board) *calendar.Day {
	before, ok := b.Previous()
	if !ok {
		return nil
	}
	return &before.StartsOn
}

// among makes a stretch of the rows of a board among users, and the deltas of all of them.
func among(rows []dbsqlc.LeaderboardAmongRow, req request, now time.Time) (*slice, map[uuid.UUID]*int64) {
	s, deltas := &slice{updatedAt: now}, make(map[uuid.UUID]*int64, len(rows))
	for i := range rows {
		r := &rows[i]
		if r.PreviousRank > 0 {
			delta := r.PreviousRank - r.Rank
			deltas[r.UserID] = &delta
		}
		is := standing{
			place: place{seconds: r.Seconds, user: r.UserID}, version: r.Version, rank: r.Rank,
			facts: Facts{
				Handle: r.Handle, AvatarURL: r.AvatarUrl, TopLang: r.TopLang,
				StreakFirst: r.StreakFirstOn, StreakLast: r.StreakLastOn, Zone: r.Zone,
			},
		}
		if r.UserID == req.me {
			s.me = &is
		}
		switch {
		case !r.InPage:
		case len(s.rows) < req.limit:
			s.rows = append(s.rows, is)
		default:
			s.next = &place{seconds: is.seconds, user: is.user}
		}
	}
	return s, deltas
}
