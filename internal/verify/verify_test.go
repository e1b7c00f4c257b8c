package verify

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
)

// scoresKey is the sorted set of a board. The tests write to it behind everybody's back.
func scoresKey(p calendar.Period, lang string) string {
	b := boardOf(p, lang)
	return fmt.Sprintf("{lb:%s:%s:%s}:z", b.Period, b.StartsOn, lang)
}

func (f *fixture) plantScore(key string, n int, by float64) {
	f.t.Helper()
	id := userID(n).String()
	was, err := f.rdb.ZScore(f.ctx, key, id).Result()
	require.NoError(f.t, err)
	require.NoError(f.t, f.rdb.ZAdd(f.ctx, key, redis.Z{Score: was + by, Member: id}).Err())
}

func (f *fixture) plantGhost(key, member string, seconds float64) {
	f.t.Helper()
	n, err := f.rdb.ZAdd(f.ctx, key, redis.Z{Score: seconds, Member: member}).Result()
	require.NoError(f.t, err)
	require.EqualValues(f.t, 1, n)
}

// plantTotal moves one total of one user by a second.
func plantTotal(p calendar.Period, lang string, by int) func(*fixture) {
	return func(f *fixture) {
		f.exec(`UPDATE totals SET seconds = seconds + $1 WHERE user_id = $2 AND period = $3 AND starts_on = $4 AND lang = $5`,
			by, userID(42), p, p.Start(today), lang)
	}
}

type plant struct {
	name  string
	plant func(*fixture)
	want  Result // what is found, without how much was checked
}

func plants() []plant {
	one := Count{Users: 1, Rows: 1, Seconds: 1}
	streak := Result{Streaks: Count{Users: 1, Rows: 1}}
	place := func(seconds int64) Result { return Result{Places: Count{Users: 1, Rows: 1, Seconds: seconds}} }
	ps := []plant{
		{"a session's seconds", func(f *fixture) {
			f.exec(`UPDATE session_seconds SET seconds = seconds + 1 WHERE user_id = $1 AND day = $2 AND lang = 'go'`, userID(42), today)
		}, Result{Sessions: one}},
		{"a missing total", func(f *fixture) {
			f.exec(`DELETE FROM totals WHERE user_id = $1 AND period = 'month' AND starts_on = '2026-04-01' AND lang = 'rust'`, userID(7))
		}, Result{Totals: Count{Users: 1, Rows: 1, Seconds: -1}}},
		{"a superfluous total", func(f *fixture) {
			f.exec(`INSERT INTO totals VALUES ($1, 'week', $2, 'c++', 1)`, userID(9), calendar.PeriodWeek.Start(today))
		}, Result{Totals: one}},
		{"a superfluous day of long ago", func(f *fixture) {
			f.exec(`INSERT INTO totals VALUES ($1, 'day', '2020-02-29', '', 1)`, userID(9))
		}, Result{Totals: one}},
		{"first day of the streak", func(f *fixture) {
			f.exec(`UPDATE users SET streak_first_on = streak_first_on - 1 WHERE id = $1`, userID(3))
		}, streak},
		{"last day of the streak", func(f *fixture) {
			f.exec(`UPDATE users SET streak_last_on = NULL WHERE id = $1`, userID(3))
		}, streak},
		{"longest streak", func(f *fixture) {
			f.exec(`UPDATE users SET longest_streak_days = longest_streak_days + 1 WHERE id = $1`, userID(3))
		}, streak},
		{"number of sessions too high", func(f *fixture) {
			f.exec(`UPDATE users SET session_count = session_count + 1 WHERE id = $1`, userID(3))
		}, Result{Counts: Count{Users: 1, Rows: 1}}},
		{"number of sessions too low", func(f *fixture) {
			f.exec(`UPDATE users SET session_count = session_count - 2 WHERE id = $1`, userID(3))
		}, Result{Counts: Count{Users: 1, Rows: 2}}},
		{"a place too high", func(f *fixture) { f.plantScore(scoresKey(calendar.PeriodDay, ""), 99, 1) }, place(1)},
		{"a place too low", func(f *fixture) { f.plantScore(scoresKey(calendar.PeriodAllTime, "go"), 99, -1) }, place(1)},
		{"a missing member", func(f *fixture) {
			require.EqualValues(f.t, 1, f.rdb.ZRem(f.ctx, scoresKey(calendar.PeriodMonth, "rust"), userID(120).String()).Val())
		}, place(-1)},
		{"a ghost who is no user", func(f *fixture) {
			f.plantGhost(scoresKey(calendar.PeriodWeek, ""), userID(999_999).String(), 17)
		}, place(17)},
		{"a user where there is no total", func(f *fixture) {
			f.plantGhost(scoresKey(calendar.PeriodDay, "rust"), userID(500).String(), 1)
		}, place(1)},
		{"a member that is no user's id", func(f *fixture) {
			f.plantGhost(scoresKey(calendar.PeriodAllTime, ""), "nonsense", 5)
		}, place(5)},
	}
	for _, p := range calendar.Periods {
		for _, lang := range []string{"", "go"} {
			ps = append(ps,
				plant{fmt.Sprintf("a %s total of %q too high", p, lang), plantTotal(p, lang, 1), Result{Totals: one}},
				plant{fmt.Sprintf("a %s total of %q too low", p, lang), plantTotal(p, lang, -1), Result{Totals: one}})
		}
	}
	return append(ps, storedPlants()...)
}

// drifts is the part of a result that says what was found; seconds that a plant does not know in advance are -1.
func drifts(r, want Result) Result {
	out := Result{Sessions: r.Sessions, Totals: r.Totals, Streaks: r.Streaks, Counts: r.Counts, Places: r.Places}
	for _, c := range []struct{ got, want *Count }{{&out.Totals, &want.Totals}, {&out.Places, &want.Places}} {
		if c.want.Seconds == -1 && c.got.Seconds > 0 {
			c.got.Seconds = -1
		}
	}
	return out
}

// TestFindsExactlyWhatWasPlanted plants one error after another among some hundred users. Each must be found, alone, and
// healed to what stood there before.
func TestFindsExactlyWhatWasPlanted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 150)
	f.t = t
	// One user without any time, who stands nowhere.
	f.exec(`INSERT INTO users (id, handle, token_hash) VALUES ($1, 'idle', '')`, userID(500))
	clean := f.check(false)
	require.Zero(t, clean.Drift, "%+v", clean)
	require.EqualValues(t, 151, clean.Users)
	before := f.stored()
	for _, p := range plants() {
		p.plant(f)
		found := f.check(false)
		require.Equal(t, p.want, drifts(found, p.want), p.name)
		require.EqualValues(t, 1, found.Drift, p.name)
		require.Zero(t, found.Healed, p.name)

		healed := f.check(true)
		require.EqualValues(t, 1, healed.Drift, p.name)
		require.EqualValues(t, 1, healed.Healed, p.name)

		after := f.check(false)
		require.Zero(t, after.Drift, "%s: %+v", p.name, after)
		require.Equal(t, clean.Boards, after.Boards, p.name)
		require.Equal(t, before, f.stored(), p.name)
	}
}

func TestPassesOverWhatIsNoDrift(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	f.t = t
	// Totals of zero await the publication of their removal.
	f.exec(`INSERT INTO totals VALUES ($1, 'day', '2026-06-01', 'go', 0)`, userID(1))
	// A pending user's places may be anything.
	f.exec(`INSERT INTO outbox VALUES ($1, 99)`, userID(2))
	f.plantScore(scoresKey(calendar.PeriodDay, ""), 2, 10)
	// A board without a mark is not whole: Postgres answers.
	require.NoError(t, f.rdb.Del(f.ctx, scoresKey(calendar.PeriodMonth, "")).Err())
	r := f.check(false)
	require.Zero(t, r.Drift, "%+v", r)
	require.Positive(t, r.Unbuilt)
}

func TestAUserOnOffIsShownNowhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	f.t = t
	f.exec(`UPDATE users SET privacy = 'off' WHERE id = $1`, userID(5)) // without a word to the boards
	r := f.check(true)
	require.Positive(t, r.Places.Users)
	require.Equal(t, r.Drift, r.Healed)
	require.Zero(t, f.check(false).Drift)
	for _, span := range calendar.Kept(noon) {
		score := f.rdb.ZScore(f.ctx, fmt.Sprintf("{lb:%s:%s:}:z", span.Period, span.StartsOn), userID(5).String()).Val()
		require.LessOrEqual(t, score, 0.0)
	}
}

// TestLeavesWhatItCannotExplain: totals must not be made to fit a session that is known to be wrong.
func TestLeavesWhatItCannotExplain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	f.t = t
	f.exec(`UPDATE sessions SET ended_at = ended_at + interval '1 second' WHERE user_id = $1 AND started_at > $2`,
		userID(5), noon.Add(-24*time.Hour))
	before := f.stored()
	r := f.check(true)
	require.Equal(t, Count{Users: 1, Rows: 1, Seconds: 1}, r.Sessions)
	require.EqualValues(t, 1, r.Drift)
	require.Zero(t, r.Healed)
	require.Equal(t, before, f.stored())
}

// TestHealRaisesTheVersionOverTheBoards: after Postgres was restored to an older state, boards know newer versions and
// would refuse what is published.
func TestHealRaisesTheVersionOverTheBoards(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	f.t = t
	key := fmt.Sprintf("{lb:%s:%s:}", calendar.PeriodDay, today)
	value := f.rdb.HGet(f.ctx, key+":m", userID(5).String()).Val()
	require.NotEmpty(t, value)
	require.NoError(t, f.rdb.HSet(f.ctx, key+":m", userID(5).String(), "99"+value).Err())
	f.plantScore(key+":z", 5, 100)
	r := f.check(true)
	require.EqualValues(t, 1, r.Healed)
	require.Zero(t, f.check(false).Drift)
}

func TestStartsAnywhereAndCoversAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	f.t = t
	_, err := f.pool.Exec(f.ctx, `INSERT INTO users (id, handle, token_hash)
		SELECT gen_random_uuid(), 'r' || i, '' FROM generate_series(1, 20) i`)
	require.NoError(t, err)
	for range 20 {
		r, err := f.checker.All(f.ctx, Options{Page: 3, Anew: true})
		require.NoError(t, err)
		require.EqualValues(t, 40, r.Users)
	}
}
