package leaderboard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// truth reads boards from the totals in Postgres.
type truth struct {
	pool  *pgxpool.Pool
	langs []string // those that have boards
}

// page reads what live.page reads from Redis. All its statements see one state of the database.
func (t truth) page(ctx context.Context, now time.Time, b Board, r request) (*slice, error) {
	s := &slice{updatedAt: now}
	o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, t.pool, o, func(tx pgx.Tx) error {
		v := view{db: tx, board: b, langs: t.langs}
		if err := v.readMe(ctx, r, s); err != nil {
			return err
		}
		if r.kind == pageAround {
			return v.readAround(ctx, r.limit, s)
		}
		return v.readAfter(ctx, r, s)
	})
	if err != nil {
		return nil, fmt.Errorf("read board from Postgres: %w", err)
	}
	return s, nil
}

// view is one board as the totals in Postgres have it, seen through one handle.
type view struct {
	db    dbsqlc.DBTX
	board Board
	langs []string // those that may be somebody's top language
}

// readMe finds the place of the user that the request asks for.
func (v view) readMe(ctx context.Context, r request, s *slice) error {
	if r.me == uuid.Nil {
		return nil
	}
	row, err := dbsqlc.New().LeaderboardGet(ctx, v.db, dbsqlc.LeaderboardGetParams{
		BoardLangs: v.langs, UserID: r.me, Period: v.board.Period, StartsOn: v.board.StartsOn, Lang: v.board.Lang,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	me := standingOf(row)
	count, err := v.countBefore(ctx, me.place)
	if err != nil {
		return err
	}
	me.rank = count.Above + 1
	s.me = &me
	return nil
}

func (v view) readAfter(ctx context.Context, r request, s *slice) error {
	rows, err := v.below(ctx, r.after, r.limit+1)
	if err != nil {
		return err
	}
	s.rows = rows[:min(r.limit, len(rows))]
	s.next = placeAt(rows, r.limit)
	return v.rankIn(ctx, s, r.kind == pageFirst)
}

func (v view) readAround(ctx context.Context, limit int, s *slice) error {
	if s.me == nil {
		return nil
	}
	before, err := v.above(ctx, s.me.place, limit-1)
	if err != nil {
		return err
	}
	after, err := v.below(ctx, s.me.place, limit)
	if err != nil {
		return err
	}
	takeBefore, takeAfter := window(limit, len(before), len(after))
	for i := takeBefore - 1; i >= 0; i-- { // they came nearest first
		s.rows = append(s.rows, before[i])
	}
	s.rows = append(s.rows, *s.me)
	s.rows = append(s.rows, after[:takeAfter]...)
	s.next = placeAt(after, takeAfter)
	return v.rankIn(ctx, s, false)
}

// placeAt is the place of the i-th row, nil when there is none.
func placeAt(rows []standing, i int) *place {
	if i >= len(rows) {
		return nil
	}
	return &rows[i].place
}

// rankIn gives the rows their ranks.
func (v view) rankIn(ctx context.Context, s *slice, first bool) error {
	if len(s.rows) == 0 {
		return nil
	}
	var count dbsqlc.LeaderboardCountBeforeRow
	if !first {
		var err error
		if count, err = v.countBefore(ctx, s.rows[0].place); err != nil {
			return err
		}
	}
	setRanks(s.rows, count.Before, count.Above)
	return nil
}

func (v view) countBefore(ctx context.Context, p place) (dbsqlc.LeaderboardCountBeforeRow, error) {
	return dbsqlc.New().LeaderboardCountBefore(ctx, v.db, dbsqlc.LeaderboardCountBeforeParams{
		Period: v.board.Period, StartsOn: v.board.StartsOn, Lang: v.board.Lang, Seconds: p.seconds, UserID: p.user,
	})
}

// below reads up to n rows after a place, nearest first.
func (v view) below(ctx context.Context, p place, n int) ([]standing, error) {
	rows, err := dbsqlc.New().LeaderboardPageBelow(ctx, v.db, dbsqlc.LeaderboardPageBelowParams{
		BoardLangs: v.langs, Period: v.board.Period, StartsOn: v.board.StartsOn, Lang: v.board.Lang,
		Seconds: p.seconds, UserID: p.user, MaxRows: int32(n),
	})
	if err != nil {
		return nil, fmt.Errorf("read totals: %w", err)
	}
	standings := make([]standing, len(rows))
	for i := range rows {
		standings[i] = standingOf(dbsqlc.LeaderboardGetRow(rows[i]))
	}
	return standings, nil
}

// above reads up to n rows before a place, nearest first.
func (v view) above(ctx context.Context, p place, n int) ([]standing, error) {
	rows, err := dbsqlc.New().LeaderboardPageAbove(ctx, v.db, dbsqlc.LeaderboardPageAboveParams{
		BoardLangs: v.langs, Period: v.board.Period, StartsOn: v.board.StartsOn, Lang: v.board.Lang,
		Seconds: p.seconds, UserID: p.user, MaxRows: int32(n),
	})
	if err != nil {
		return nil, fmt.Errorf("read totals: %w", err)
	}
	standings := make([]standing, len(rows))
	for i := range rows {
		standings[i] = standingOf(dbsqlc.LeaderboardGetRow(rows[i]))
	}
	return standings, nil
}

func standingOf(r dbsqlc.LeaderboardGetRow) standing {
	return standing{
		place:   place{seconds: r.Seconds, user: r.UserID},
		version: r.Version,
		facts: Facts{
			Handle: r.Handle, AvatarURL: r.AvatarUrl, TopLang: r.TopLang,
			StreakFirst: r.StreakFirstOn, StreakLast: r.StreakLastOn, Zone: r.Zone,
		},
	}
}

// ranks are the ranks of those of the users that have a place.
func (t truth) ranks(ctx context.Context, b Board, users []uuid.UUID) (map[uuid.UUID]int64, error) {
	rows, err := dbsqlc.New().LeaderboardRanks(ctx, t.pool, dbsqlc.LeaderboardRanksParams{
		Period: b.Period, StartsOn: b.StartsOn, Lang: b.Lang, UserIDs: users,
	})
	if err != nil {
		return nil, fmt.Errorf("read ranks from Postgres: %w", err)
	}
	ranks := make(map[uuid.UUID]int64, len(rows))
	for _, r := range rows {
		ranks[r.UserID] = r.Rank
	}
	return ranks, nil
}
