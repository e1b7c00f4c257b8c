package leaderboard

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/testenv"
)

// page reads a page through the reader.
func (f *fixture) page(b Board, q Query) Page {
	f.t.Helper()
	p, err := f.reader.Page(f.ctx, noon, b, q)
	require.NoError(f.t, err)
	return p
}

// bothWays reads a page from Redis and from Postgres and requires that they are one.
func (f *fixture) bothWays(t require.TestingT, b Board, q Query) *slice {
	r, err := q.request()
	require.NoError(t, err)
	live, err := f.reader.live.page(f.ctx, b, r)
	require.NoError(t, err)
	require.NotNil(t, live)
	truth, err := f.reader.truth.page(f.ctx, noon, b, r)
	require.NoError(t, err)
	if live.me != nil {
		live.me.user = r.me
	}
	require.WithinDuration(t, clock.System{}.Now(), live.updatedAt, time.Minute)
	live.updatedAt, truth.updatedAt = time.Time{}, time.Time{}
	require.Equal(t, len(truth.rows), len(live.rows))
	for i := range truth.rows {
		require.Equal(t, truth.rows[i], live.rows[i])
	}
	require.Equal(t, truth.me, live.me)
	require.Equal(t, truth.next, live.next)
	return live
}

// walk follows the cursors to the end.
func (f *fixture) walk(t require.TestingT, b Board, limit int, between func()) []standing {
	var all []standing
	for q := (Query{Limit: limit}); ; {
		s := f.bothWays(t, b, q)
		all = append(all, s.rows...)
		if s.next == nil {
			return all
		}
		q.Cursor = *s.page(b, noon).NextCursor
		between()
	}
}

// TestPagesFromRedisAndPostgresAreOne, over boards with many ties: first pages, walks to the end, pages around each user,
// and the ranks against their definition.
func TestPagesFromRedisAndPostgresAreOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const users = 40
	for n := 1; n <= users; n++ {
		id := f.user(n, "full")
		f.exec(`UPDATE users SET avatar_url = $2, streak_first_on = $3, streak_last_on = $4 WHERE id = $1`,
			id, fmt.Sprint("https://example.org/", n), today-calendar.Day(n), today)
	}
	f.exec(`UPDATE users SET avatar_url = NULL, streak_first_on = NULL, streak_last_on = NULL WHERE id = $1`, userID(3))
	b := boardOf(calendar.PeriodWeek, "")
	rapid.Check(t, func(t *rapid.T) {
		f.exec(`TRUNCATE totals`)
		f.exec(`UPDATE users SET privacy = 'full'`)
		seconds := map[uuid.UUID]int64{}
		scores := rapid.SliceOfN(rapid.Int64Range(0, rapid.SampledFrom([]int64{1, 3, 100}).Draw(t, "spread")), users, users).Draw(t, "scores")
		off := rapid.IntRange(1, users).Draw(t, "off")
		for i, s := range scores {
			n := i + 1
			if s > 0 && n != off {
				seconds[userID(n)] = s
			}
		}
		f.exec(`INSERT INTO totals SELECT lpad(to_hex(n), 32, '0')::uuid, $1, $2, lang, s
			FROM unnest($3::bigint[]) WITH ORDINALITY AS x (s, n) CROSS JOIN LATERAL (VALUES (''), (($4::text[])[1 + n % 4])) AS l (lang)`,
			b.Period, b.StartsOn, scores, testLangs)
		f.exec(`UPDATE users SET privacy = 'off' WHERE id = $1`, userID(off))
		f.build(b)
		limit := rapid.IntRange(1, 12).Draw(t, "limit")

		all := f.walk(t, b, limit, func() {})
		require.Len(t, all, len(seconds))
		for i, row := range all {
			require.Equal(t, seconds[row.user], row.seconds)
			above := slices.IndexFunc(all, func(o standing) bool { return o.seconds == row.seconds })
			require.EqualValues(t, above+1, row.rank)
			if i > 0 {
				require.Equal(t, 1, cmp.Or(cmp.Compare(all[i-1].seconds, row.seconds), cmp.Compare(all[i-1].user.String(), row.user.String())))
			}
		}
		for n := 1; n <= users; n++ {
			s := f.bothWays(t, b, Query{Limit: limit, Around: userID(n)})
			at := slices.IndexFunc(s.rows, func(r standing) bool { return r.user == userID(n) })
			require.Equal(t, seconds[userID(n)] > 0, at >= 0)
			if at < 0 {
				require.Nil(t, s.me)
				require.Empty(t, s.rows)
				continue
			}
			require.Equal(t, s.rows[at].rank, s.me.rank)
			require.Len(t, s.rows, min(limit, len(all)))
		}
		users := []uuid.UUID{userID(1), userID(off), userID(7), userID(8), userID(users + 1)}
		live, _, err := f.reader.live.ranks(f.ctx, b, users)
		require.NoError(t, err)
		truth, err := f.reader.truth.ranks(f.ctx, b, users)
		require.NoError(t, err)
		require.Equal(t, truth, live)
	})
}

// TestWalkWhileScoresMove: who did not move is seen once, whatever the others do, in Redis and in Postgres.
func TestWalkWhileScoresMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodDay, "")
	const users, moving = 300, 100
	for n := range users {
		f.total(f.user(n, "full"), b, int64(10+n%7)) // ties of 40 and more
	}
	generation := f.build(b)
	random := rand.New(rand.NewPCG(1, 2))
	version := int64(1)
	between := func() {
		version++
		for range 20 { // in both places at once, since pages are compared
			id, seconds := userID(random.IntN(moving)), random.Int64N(20)
			f.total(id, b, seconds)
			f.exec(`UPDATE users SET version = $2 WHERE id = $1`, id, version)
			require.Empty(t, f.publish(b, generation, Row{
				User: id, Version: version, Seconds: seconds, Facts: Facts{Handle: "u" + id.String()[24:], Zone: "UTC"},
			}).Refused)
		}
	}
	seen := map[uuid.UUID]int{}
	for _, row := range f.walk(t, b, 11, between) {
		seen[row.user]++
	}
	for n := moving; n < users; n++ {
		require.Equal(t, 1, seen[userID(n)], "user %d", n)
	}
}

// TestAroundInTheMiddle pins the window in a board whose order is known.
func TestAroundInTheMiddle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodAllTime, "")
	f.seed(b, 20) // user n has n seconds
	f.build(b)
	for n, want := range map[int][]int{
		20: {20, 19, 18, 17, 16}, 19: {20, 19, 18, 17, 16}, 18: {20, 19, 18, 17, 16}, 17: {19, 18, 17, 16, 15},
		3: {5, 4, 3, 2, 1}, 2: {5, 4, 3, 2, 1}, 1: {5, 4, 3, 2, 1},
	} {
		p := f.page(b, Query{Limit: 5, Around: userID(n)})
		var got []int
		for _, e := range p.Entries {
			got = append(got, int(e.Seconds))
		}
		require.Equal(t, want, got)
		require.EqualValues(t, 21-n, p.Me.Rank)
		require.Equal(t, want[4] != 1, p.NextCursor != nil)
		require.Empty(t, f.missing, "served from Redis")
	}
	p := f.page(b, Query{Limit: 5, Around: userID(99)})
	require.Empty(t, p.Entries)
	require.Nil(t, p.Me)
}

func TestEntriesHaveEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	week := calendar.SpanOf(calendar.PeriodWeek, today)
	last, _ := week.Previous()
	ann, bob, cyd, dan := f.user(1, "full"), f.user(2, "summary"), f.user(3, "full"), f.user(4, "full")
	f.exec(`UPDATE users SET avatar_url = 'https://example.org/a.png', streak_first_on = $2, streak_last_on = $3 WHERE id = $1`,
		ann, today-9, today-1)
	f.exec(`UPDATE users SET streak_first_on = $2, streak_last_on = $2 WHERE id = $1`, bob, today-1)
	f.exec(`INSERT INTO user_zones VALUES ($1, 1000, 'Pacific/Kiritimati')`, bob) // there it is tomorrow already
	for _, total := range []struct {
		user    uuid.UUID
		span    calendar.Span
		lang    string
		seconds int64
	}{
		{ann, week, "", 100}, {ann, week, "go", 40}, {ann, week, "c", 40}, {ann, week, "unknown", 20},
		{bob, week, "", 100}, {bob, week, "klingon", 70}, {bob, week, "go", 30},
		{dan, week, "", 40}, {dan, week, "klingon", 40},
		{cyd, week, "", 50}, {cyd, week, "c", 50},
		{cyd, last, "", 500}, {bob, last, "", 70}, {ann, last, "", 0},
	} {
		f.total(total.user, Board{Span: total.span, Lang: total.lang}, total.seconds)
	}
	text := func(s string) *string { return &s }
	number := func(n int64) *int64 { return &n }
	want := []Entry{
		{UserID: bob, Handle: "u" + bob.String()[24:], Seconds: 100, Rank: 1, TopLang: text("go"), Delta: number(1)},
		{
			UserID: ann, Handle: "u" + ann.String()[24:], AvatarURL: text("https://example.org/a.png"), Seconds: 100, Rank: 1,
			TopLang: text("c"), StreakDays: 9,
		},
		{UserID: cyd, Handle: "u" + cyd.String()[24:], Seconds: 50, Rank: 3, TopLang: text("c"), Delta: number(-2)},
		{UserID: dan, Handle: "u" + dan.String()[24:], Seconds: 40, Rank: 4}, // names that are not listed are not for the public
	}
	b := Board{Span: week}
	fromTruth := f.page(b, Query{Limit: 10, Me: cyd})
	require.Equal(t, Page{Board: b, UpdatedAt: noon, Entries: want, Me: &want[2]}, fromTruth)
	require.Equal(t, b, <-f.missing)
	require.Equal(t, Board{Span: last}, <-f.missing, "a hook hears of both boards")

	f.build(b)
	f.build(Board{Span: last})
	fromRedis := f.page(b, Query{Limit: 10, Me: cyd})
	require.Empty(t, f.missing)
	fromRedis.UpdatedAt = fromTruth.UpdatedAt
	require.Equal(t, fromTruth, fromRedis)
	require.Nil(t, f.page(Board{Span: week, Lang: "c"}, Query{Me: bob}).Me, "not on this board")
	require.Nil(t, f.page(boardOf(calendar.PeriodAllTime, ""), Query{}).NextCursor)
}

// TestOldSpansAreReadFromPostgres, even if a key of theirs is still there: nobody publishes into it.
func TestOldSpansAreReadFromPostgres(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := Board{Span: calendar.SpanOf(calendar.PeriodDay, today-2)}
	f.total(f.user(1, "full"), old, 60)
	f.build(old)
	f.total(userID(1), old, 61)
	require.EqualValues(t, 61, f.page(old, Query{}).Entries[0].Seconds)
	require.Empty(t, f.missing)
	require.NotNil(t, f.scores(old))
}

// TestAPageIsNeverPartial: whatever is lost, the page is whole, and from Postgres.
func TestAPageIsNeverPartial(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodAllTime, "")
	f.seed(b, 5)
	for _, lost := range [][]string{{b.keys().scores}, {b.keys().members}, {b.keys().scores, b.keys().members}} {
		f.build(b)
		require.Len(t, f.page(b, Query{Limit: 10}).Entries, 5)
		require.Empty(t, f.missing)
		require.NoError(t, f.rdb.Del(t.Context(), lost...).Err())
		require.Len(t, f.page(b, Query{Limit: 10}).Entries, 5)
		require.Equal(t, b, <-f.missing)
	}
}

// counter counts what is asked of Redis, whether or not it gets as far as a connection, whose greeting does not count.
type counter struct{ asked *atomic.Int64 }

func (c counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" {
			c.asked.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.asked.Add(1)
		return next(ctx, cmds)
	}
}

// TestRedisAwayOrHung: pages come from Postgres, and only the first waits for Redis, and once, though it has two questions.
func TestRedisAwayOrHung(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	hung := redis.NewClient(&redis.Options{Addr: listener.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer func() { _ = hung.Close() }()
	var asked atomic.Int64
	hung.AddHook(counter{&asked})
	f := fixtureOn(t, hung)
	f.reader = NewReader(f.pool, hung, ReaderConfig{RedisTimeout: 300 * time.Millisecond, Log: testenv.Logger(t)})
	b := boardOf(calendar.PeriodDay, "")
	f.seed(b, 5)
	for range 3 {
		require.Len(t, f.page(b, Query{Limit: 10}).Entries, 5)
		require.EqualValues(t, 1, asked.Load(), "Redis is left alone")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.reader.Page(ctx, noon, b, Query{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestBadCursor(t *testing.T) {
	t.Parallel()
	_, err := (&Reader{}).Page(t.Context(), noon, boardOf(calendar.PeriodDay, ""), Query{Cursor: "nonsense"})
	require.ErrorIs(t, err, ErrBadCursor)
}

// TestRedisFailsOncePerRequest, also when the breaker would let the second question through.
func TestRedisFailsOncePerRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	questions := 0
	v := visit{Reader: f.reader, now: noon}
	ask := func(err error) bool {
		return v.ask(t.Context(), boardOf(calendar.PeriodDay, ""), func(context.Context) error { questions++; return err })
	}
	require.True(t, ask(nil))
	require.False(t, ask(errAnswer), "it does not open the breaker")
	require.False(t, ask(nil))
	require.Equal(t, 2, questions)
	v = visit{Reader: f.reader, now: noon}
	require.True(t, ask(nil), "another request asks")
}

// TestOnlyBoardsWithPlacesAreMissing: a board that nobody has seconds on is not built, so it would be missing for ever.
func TestOnlyBoardsWithPlacesAreMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := boardOf(calendar.PeriodWeek, "c")
	require.Empty(t, f.page(b, Query{}).Entries)
	require.Empty(t, f.missing)
	f.total(f.user(1, "full"), b, 60)
	require.Len(t, f.page(b, Query{}).Entries, 1)
	require.Equal(t, b, <-f.missing)
	require.Empty(t, f.missing, "nobody had seconds the week before")
}

// TestPostgresReadsAreBounded: what does not get its turn in time is told so, and takes no connection.
func TestPostgresReadsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.reader = NewReader(f.pool, f.rdb, ReaderConfig{PostgresReads: 2, PostgresWait: 20 * time.Millisecond})
	old := Board{Span: calendar.SpanOf(calendar.PeriodDay, today-9)}
	f.total(f.user(1, "full"), old, 60)
	err := f.reader.fromPostgres(t.Context(), func(ctx context.Context) error {
		require.Len(t, f.page(old, Query{}).Entries, 1, "one may run beside")
		return f.reader.fromPostgres(ctx, func(ctx context.Context) error {
			_, err := f.reader.Page(ctx, noon, old, Query{})
			require.ErrorIs(t, err, ErrBusy)
			v := visit{Reader: f.reader, now: noon}
			_, err = v.ranks(ctx, old, []uuid.UUID{userID(1)})
			require.ErrorIs(t, err, ErrBusy)
			gone, cancel := context.WithCancel(ctx)
			cancel()
			_, err = f.reader.Page(gone, noon, old, Query{})
			require.ErrorIs(t, err, context.Canceled)
			return nil
		})
	})
	require.NoError(t, err)
	require.Len(t, f.page(old, Query{}).Entries, 1, "the places are given back")
}
