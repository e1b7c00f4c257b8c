package bench

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/testenv"
)

// BenchmarkBoardPage reads pages of a board of 1,000,000 members and of one of 10,000, each with the board of the week before
// to compare with: against the bare commands through the same client, and one against the other.
func BenchmarkBoardPage(b *testing.B) {
	large, small := scaled(1_000_000, 2000), scaled(10_000, 500)
	db, rdb := testenv.StockPostgres(b, "synchronous_commit", "off"), newRedis(b)
	week := calendar.SpanOf(calendar.PeriodWeek, calendar.DayOf(noon))
	before, _ := week.Previous()
	seedBoards(b, db, large, small, week.StartsOn, before.StartsOn)
	builder := leaderboard.NewBuilder(db, rdb, languages.Keys(), quiet)
	reader := leaderboard.NewReader(db, rdb, leaderboard.ReaderConfig{
		MissingFunc: func(board leaderboard.Board) { b.Errorf("%v was read from Postgres", board) },
	})
	largest, smaller := boardBench{rdb, reader, leaderboard.Board{Span: week}}, boardBench{rdb, reader, leaderboard.Board{Span: week, Lang: "go"}}
	for _, board := range []leaderboard.Board{largest.board, smaller.board} {
		previous, _ := board.Previous()
		for _, x := range []leaderboard.Board{board, previous} {
			_, err := builder.Build(b.Context(), x)
			require.NoError(b, err)
		}
	}
	const calls = 50
	for _, x := range []struct {
		members int
		boardBench
	}{{large, largest}, {small, smaller}} {
		at := fmt.Sprintf("members=%d/", x.members)
		deep := x.deep(b, x.members/2)
		b.Run(at+"top/against=bare", func(b *testing.B) { duel(b, each(calls, x.bare(b)), each(calls, x.page(b, ""))) })
		b.Run(at+"deep/against=bare", func(b *testing.B) { duel(b, each(calls, x.bare(b)), each(calls, x.page(b, deep))) })
	}
	b.Run("top/against=small", func(b *testing.B) {
		duel(b, each(calls, smaller.page(b, "")), each(calls, largest.page(b, "")))
	})
	b.Run("deep/against=small", func(b *testing.B) {
		duel(b, each(calls, smaller.page(b, smaller.deep(b, small/2))), each(calls, largest.page(b, largest.deep(b, large/2))))
	})
}

// seedBoards gives users totals of two weeks: all of them in all languages, the first ones in Go as well.
func seedBoards(b *testing.B, db *pgxpool.Pool, large, small int, week, before calendar.Day) {
	b.Helper()
	exec(b, db, `INSERT INTO users (id, handle, token_hash, privacy, version) SELECT `+uid+`, 'user-' || i, '\x00', 'summary', 1
		FROM generate_series(1, $1::int) i`, large)
	exec(b, db, `INSERT INTO user_zones SELECT id, 0, 'Europe/Berlin' FROM users`)
	rebuild := dropIndexes(b, db, "totals")
	exec(b, db, `INSERT INTO totals SELECT `+uid+`, 'week', w.day, '', 60 + i::bigint * w.step % 400000
		FROM generate_series(1, $1::int) i, (VALUES ($2::date, 7919), ($3::date, 104729)) w (day, step)`, large, week, before)
	exec(b, db, `INSERT INTO totals SELECT user_id, period, starts_on, 'go', seconds FROM totals t
		WHERE t.user_id IN (SELECT `+uid+` FROM generate_series(1, $1::int) i)`, small)
	rebuild()
	settle(b, db)
}

// boardBench is a board that is read.
type boardBench struct {
	rdb    *redis.Client
	reader *leaderboard.Reader
	board  leaderboard.Board
}

// bare asks for the first hundred members and for what is stored of them, and does nothing with it.
func (x boardBench) bare(b *testing.B) func() {
	tag := fmt.Sprintf("{lb:%s:%s:%s}", x.board.Period, x.board.StartsOn, x.board.Lang)
	return func() {
		rows := x.rdb.ZRevRangeWithScores(b.Context(), tag+":z", 0, 99).Val()
		members := make([]string, len(rows))
		for i, r := range rows {
			members[i], _ = r.Member.(string)
		}
		require.Len(b, x.rdb.HMGet(b.Context(), tag+":m", members...).Val(), 100)
	}
}

// page reads a page as it is answered, with ranks, deltas, streaks and names.
func (x boardBench) page(b *testing.B, cursor string) func() {
	return func() {
		p, err := x.reader.Page(b.Context(), noon, x.board, leaderboard.Query{Limit: 100, Cursor: cursor})
		require.NoError(b, err)
		require.Len(b, p.Entries, 100)
		require.NotNil(b, p.Entries[0].Delta)
	}
}

// deep is the cursor of a page after about so many places: that after whoever is there.
func (x boardBench) deep(b *testing.B, places int) string {
	b.Helper()
	members := x.rdb.ZRangeArgs(b.Context(), redis.ZRangeArgs{
		Key:   fmt.Sprintf("{lb:%s:%s:%s}:z", x.board.Period, x.board.StartsOn, x.board.Lang),
		Start: places, Stop: places, Rev: true,
	}).Val()
	require.Len(b, members, 1)
	p, err := x.reader.Page(b.Context(), noon, x.board, leaderboard.Query{Limit: 100, Around: uuid.MustParse(members[0])})
	require.NoError(b, err)
	require.NotNil(b, p.NextCursor)
	return *p.NextCursor
}
