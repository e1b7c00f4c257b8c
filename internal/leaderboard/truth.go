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
	pool *pgxpool.Pool
}

// page reads what live.page reads from Redis. All its statements see one state of the database.
func (t truth) page(ctx context.Context, now time.Time, b Board, r request) (*slice, error) {
	s := &slice{updatedAt: now}
	o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, t.pool, o, func(tx pgx.Tx) error {
		if err := readMe(ctx, tx, b, r, s); err != nil {
			return err
		}
		if r.kind == pageAround {
			return readAround(ctx, tx, b, r.limit, s)
		}
		return readAfter(ctx, tx, b, r, s)
	})
	if err != nil {
		return nil, fmt.Errorf("read board from Postgres: %w", err)
	}
	return s, nil
}

// readMe finds the place of the user that the request asks for.
func readMe(ctx context.Context, db dbsqlc.DBTX, b Board, r request, s *slice) error {
	if r.me == uuid.Nil {
		return nil
	}
	row, err := dbsqlc.New().LeaderboardGet(ctx, db, dbsqlc.LeaderboardGetParams{
		UserID: r.me, Period: b.Period, StartsOn: b.StartsOn, Lang: b.Lang,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	me := standingOf(row)
	count, err := countBefore(ctx, db, b, me.place)
	if err != nil {
		return err
	}
	me.rank = count.Above + 1
	s.me = &me
	return nil
}

func readAfter(ctx context.Context, db dbsqlc.DBTX, b Board, r request, s *slice) error {
	rows, err := readBelow(ctx, db, b, r.after, r.limit+1)
	if err != nil {
		return err
	}
	s.rows, s.more = rows[:min(r.limit, len(rows))], len(rows) > r.limit
	return s.rankIn(ctx, db, b, r.kind == pageFirst)
}

func readAround(ctx context.Context, db dbsqlc.DBTX, b Board, limit int, s *slice) error {
	if s.me == nil {
		return nil
	}
	before, err := readAbove(ctx, db, b, s.me.place, limit-1)
	if err != nil {
		return err
	}
	after, err := readBelow(ctx, db, b, s.me.place, limit)
	if err != nil {
		return err
	}
	takeBefore, takeAfter := window(limit, len(before), len(after))
	for i := takeBefore - 1; i >= 0; i-- { // they came nearest first
		s.rows = append(s.rows, before[i])
	}
	s.rows = append(s.rows, *s.me)
	s.rows = append(s.rows, after[:takeAfter]...)
	s.more = len(after) > takeAfter
	return s.rankIn(ctx, db, b, false)
}

// rankIn gives the rows their ranks.
func (s *slice) rankIn(ctx context.Context, db dbsqlc.DBTX, b Board, first bool) error {
	if len(s.rows) == 0 {
		return nil
	}
	var count dbsqlc.LeaderboardCountBeforeRow
	if !first {
		var err error
		if count, err = countBefore(ctx, db, b, s.rows[0].place); err != nil {
			return err
		}
	}
	setRanks(s.rows, count.Before, count.Above)
	return nil
}

func countBefore(ctx context.Context, db dbsqlc.DBTX, b Board, p place) (dbsqlc.LeaderboardCountBeforeRow, error) {
	return dbsqlc.New().LeaderboardCountBefore(ctx, db, dbsqlc.LeaderboardCountBeforeParams{
		Period: b.Period, StartsOn: b.StartsOn, Lang: b.Lang, Seconds: p.seconds, UserID: p.user,
	})
}

// readBelow reads up to n rows after a place, nearest first.
func readBelow(ctx context.Context, db dbsqlc.DBTX, b Board, p place, n int) ([]standing, error) {
	rows, err := dbsqlc.New().LeaderboardPageBelow(ctx, db, dbsqlc.LeaderboardPageBelowParams{
		Period: b.Period, StartsOn: b.StartsOn, Lang: b.Lang, Seconds: p.seconds, UserID: p.user, MaxRows: int32(n),
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

// readAbove reads up to n rows before a place, nearest first.
func readAbove(ctx context.Context, db dbsqlc.DBTX, b Board, p place, n int) ([]standing, error) {
	rows, err := dbsqlc.New().LeaderboardPageAbove(ctx, db, dbsqlc.LeaderboardPageAboveParams{
		Period: b.Period, StartsOn: b.StartsOn, Lang: b.Lang, Seconds: p.seconds, UserID: p.user, MaxRows: int32(n),
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
