package tests

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/verify"
)

// span is a session: whose it is, and where it begins and ends, in seconds since the epoch.
type span struct {
	User       uuid.UUID
	Start, End int64
}

// standing compares what stands in the servers with the sessions that must: the sessions themselves, the seconds of all-time
// totals, of days and languages, and of the all-time board as users see it; then all that stands twice, as verified has it.
// Boards must be whole: where Postgres answers for one, nobody sees what the outbox lost. Nothing may be left hot.
func (s *stack) standing(pool *pgxpool.Pool, want []span) tally {
	s.t.Helper()
	t := s.t
	got := rows[span](t, pool, `SELECT user_id, extract(epoch FROM started_at)::bigint, extract(epoch FROM ended_at)::bigint FROM sessions`)
	extra, missing := difference(got, want)
	seconds := map[uuid.UUID]int64{}
	for _, w := range want {
		seconds[w.User] += w.End - w.Start
	}
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	defer func() { _ = rdb.Close() }()
	out := tally{Expected: int64(len(want)), Found: int64(len(got)), Duplicates: extra, Lost: missing}
	for _, sql := range []string{
		`SELECT user_id, seconds FROM totals WHERE period = 'alltime' AND lang = ''`,
		`SELECT user_id, sum(seconds)::bigint FROM totals WHERE period = 'day' AND lang <> '' GROUP BY 1`,
	} {
		out.Drift += apart(secondsOf(t, pool, sql), seconds)
	}
	out.Drift += apart(boardSeconds(t, pool, rdb, func(b leaderboard.Board) {
		out.Errors++
		t.Logf("board %v is not whole", b)
	}), seconds)
	out.Lost += rows[struct{ N int64 }](t, pool, `SELECT count(*) FROM events`)[0].N
	out.add(s.verified(pool, rdb))
	return out
}

// midnight is how long after a day has begun somewhere its boards may still be missing: a trial is over by then.
const midnight = 10 * time.Minute

// verified compares all boards, which must be whole, with totals, and totals, per day and language, and streaks with
// sessions. Nobody may be pending or set aside.
func (s *stack) verified(pool *pgxpool.Pool, rdb redis.UniversalClient) (found tally) {
	s.t.Helper()
	check := func() verify.Result {
		r, err := verify.New(verify.Deps{
			DB: pool, Finalizer: newFinalizer(), Boards: leaderboard.NewVerifier(pool, rdb, languages.Keys()),
			Builder:   leaderboard.NewBuilder(pool, rdb, languages.Keys(), nopLogger()),
			Publisher: publisher(pool, rdb), Clock: clock.System{}, Log: nopLogger(),
		}).All(s.t.Context(), verify.Options{})
		require.NoError(s.t, err)
		return r
	}
	r := check()
	now := clock.System{}.Now()
	if r.Unbuilt > 0 && !slices.Equal(calendar.Kept(now), calendar.Kept(now.Add(-midnight))) {
		_, err := publisher(pool, rdb).Cycle(s.t.Context(), nil)
		require.NoError(s.t, err)
		r = check()
	}
	found.Drift = max(r.Drift, r.Sessions.Seconds+r.Totals.Seconds+r.Places.Seconds)
	left := rows[struct{ N int64 }](s.t, pool, `SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM finalize_failures)`)
	found.Errors = r.Unbuilt + left[0].N
	return found
}

// difference counts what stands beyond want, doubles included, and what of want does not stand.
func difference(got, want []span) (extra, missing int64) {
	compare := func(a, b span) int {
		return cmp.Or(slices.Compare(a.User[:], b.User[:]), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	}
	got, want = slices.SortedFunc(slices.Values(got), compare), slices.SortedFunc(slices.Values(want), compare)
	for len(got) > 0 && len(want) > 0 {
		switch compare(got[0], want[0]) {
		case 0:
			got, want = got[1:], want[1:]
		case -1:
			extra, got = extra+1, got[1:]
		default:
			missing, want = missing+1, want[1:]
		}
	}
	return extra + int64(len(got)), missing + int64(len(want))
}

// apart adds up by how much the seconds of users differ.
func apart(a, b map[uuid.UUID]int64) (sum int64) {
	for user, n := range a {
		sum += abs(n - b[user])
	}
	for user, n := range b {
		if _, ok := a[user]; !ok {
			sum += abs(n)
		}
	}
	return sum
}

func abs(n int64) int64 { return max(n, -n) }

func secondsOf(t *testing.T, pool *pgxpool.Pool, sql string) map[uuid.UUID]int64 {
	t.Helper()
	out := map[uuid.UUID]int64{}
	for _, r := range rows[struct {
		User    uuid.UUID
		Seconds int64
	}](t, pool, sql) {
		out[r.User] = r.Seconds
	}
	return out
}

// boardSeconds reads the all-time board as users see it, page by page: from Redis, or from Postgres while Redis has none.
func boardSeconds(t *testing.T, pool *pgxpool.Pool, rdb redis.UniversalClient, missing func(leaderboard.Board)) map[uuid.UUID]int64 {
	t.Helper()
	reader := leaderboard.NewReader(pool, rdb, leaderboard.ReaderConfig{MissingFunc: missing})
	board := leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodAllTime}}
	shown := map[uuid.UUID]int64{}
	for cursor := ""; ; {
		page, err := reader.Page(t.Context(), clock.System{}.Now(), board, leaderboard.Query{Limit: leaderboard.MaxLimit, Cursor: cursor})
		require.NoError(t, err)
		for _, e := range page.Entries {
			shown[e.UserID] = e.Seconds
		}
		if page.NextCursor == nil {
			return shown
		}
		cursor = *page.NextCursor
	}
}
