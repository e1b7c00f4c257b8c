package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
)

// BenchmarkBoards reads from boards of 100,000 users: from Redis, and from Postgres while Redis is away; and checks them all
// for drift.
func BenchmarkBoards(b *testing.B) {
	s := newSite(b, crowd{users: scaled(100_000, 2000), sessions: 20, perDay: 2})
	rdb := newRedis(b)
	builder := leaderboard.NewBuilder(s.db, rdb, languages.Keys(), quiet)
	_, err := builder.EnsureKept(b.Context(), &noon)
	require.NoError(b, err)
	settle(b, s.db)
	b.Run("pages", func(b *testing.B) { benchPages(b, s, rdb) })
	b.Run("verify", func(b *testing.B) { benchVerify(b, s, rdb, builder) })
}

func benchPages(b *testing.B, s *site, rdb *redis.Client) {
	board := leaderboard.Board{Span: calendar.SpanOf(calendar.PeriodWeek, calendar.DayOf(noon))}
	read := func(r *leaderboard.Reader, q leaderboard.Query) func() {
		return func() {
			p, err := r.Page(b.Context(), noon, board, q)
			require.NoError(b, err)
			require.Len(b, p.Entries, q.Limit)
		}
	}
	live := leaderboard.NewReader(s.db, rdb, leaderboard.ReaderConfig{})
	// Nobody listens there: the client is refused at once, and the breaker asks it only now and then.
	logging.Disable() // of go-redis, which would print each refusal
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	b.Cleanup(func() { _ = away.Close() })
	truth := leaderboard.NewReader(s.db, away, leaderboard.ReaderConfig{})
	roundTrip := func() {
		_, err := s.db.Exec(b.Context(), `SELECT 1`)
		require.NoError(b, err)
	}
	bare := func() {
		key := fmt.Sprintf("{lb:%s:%s:}:z", board.Period, board.StartsOn)
		require.Len(b, rdb.ZRevRangeWithScores(b.Context(), key, 0, 99).Val(), 100)
	}
	top := leaderboard.Query{Limit: 100}
	const calls = 20
	b.Run("redis/against=zrevrange", func(b *testing.B) { duel(b, each(calls, bare), each(calls, read(live, top))) })
	// What they cost at most: somebody on the page was last the week before, and whoever asks for his surroundings is last.
	before, _ := board.Span.Previous()
	seconds := setSeconds(b, s, before, placed(b, s, board, 99), 1)
	b.Cleanup(func() { setSeconds(b, s, before, placed(b, s, board, 99), seconds) }) // the check comes after
	around := leaderboard.Query{Limit: 100, Around: placed(b, s, board, s.due.users-1)}
	b.Run("top/against=redis", func(b *testing.B) { duel(b, each(calls, read(live, top)), each(calls, read(truth, top))) })
	b.Run("top/against=select1", func(b *testing.B) { duel(b, each(calls, roundTrip), each(calls, read(truth, top))) })
	b.Run("around/against=redis", func(b *testing.B) { duel(b, each(calls, read(live, around)), each(calls, read(truth, around))) })
	b.Run("around/against=select1", func(b *testing.B) { duel(b, each(calls, roundTrip), each(calls, read(truth, around))) })
}

// placed is the user who has a place on a board, the first being 0.
func placed(b *testing.B, s *site, board leaderboard.Board, place int) (id uuid.UUID) {
	b.Helper()
	ctx := context.WithoutCancel(b.Context()) // also at the end
	require.NoError(b, s.db.QueryRow(ctx, `SELECT user_id FROM totals WHERE period = $1 AND starts_on = $2 AND lang = ''
		ORDER BY seconds DESC, user_id DESC OFFSET $3 LIMIT 1`, board.Period, board.StartsOn, place).Scan(&id))
	return id
}

// setSeconds sets a user's total of a span and returns what it was.
func setSeconds(b *testing.B, s *site, span calendar.Span, user uuid.UUID, seconds int64) (was int64) {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	require.NoError(b, s.db.QueryRow(ctx, `UPDATE totals t SET seconds = $4 FROM totals old
		WHERE t.user_id = $1 AND t.period = $2 AND t.starts_on = $3 AND t.lang = ''
		  AND (old.user_id, old.period, old.starts_on, old.lang) = (t.user_id, t.period, t.starts_on, t.lang)
		RETURNING old.seconds`, user, span.Period, span.StartsOn, seconds).Scan(&was))
	return was
}
