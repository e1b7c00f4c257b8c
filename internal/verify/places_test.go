package verify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/leaderboard"
)

// membersKey is the hash of a board.
func membersKey(p calendar.Period, lang string) string {
	return strings.TrimSuffix(scoresKey(p, lang), "z") + "m"
}

// plantField changes what a board stores of a user beside the seconds: the i-th of version, handle, avatar, top language,
// first and last day of the streak, and zone.
func plantField(i int, value string) func(*fixture) {
	return func(f *fixture) {
		key, id := membersKey(calendar.PeriodWeek, "go"), userID(60).String()
		fields := strings.Split(f.rdb.HGet(f.ctx, key, id).Val(), "\x00")
		require.Len(f.t, fields, 7)
		require.NotEqual(f.t, value, fields[i])
		fields[i] = value
		require.NoError(f.t, f.rdb.HSet(f.ctx, key, id, strings.Join(fields, "\x00")).Err())
	}
}

// storedPlants are errors of places that show the right seconds.
func storedPlants() []plant {
	one := Result{Places: Count{Users: 1, Rows: 1}}
	return []plant{
		{"a place with nothing but seconds", func(f *fixture) {
			require.EqualValues(f.t, 1, f.rdb.HDel(f.ctx, membersKey(calendar.PeriodAllTime, ""), userID(60).String()).Val())
		}, one},
		{"a place whose value is no value", func(f *fixture) {
			require.NoError(f.t, f.rdb.HSet(f.ctx, membersKey(calendar.PeriodDay, "go"), userID(60).String(), "x").Err())
		}, one},
		{"a place whose value only starts like one", func(f *fixture) {
			require.NoError(f.t, f.rdb.HSet(f.ctx, membersKey(calendar.PeriodDay, "go"), userID(60).String(), "999x").Err())
		}, one},
		{"an older version", plantField(0, "0"), one},
		{"a newer version", plantField(0, "99"), one},
		{"a version that is none", plantField(0, "99999999999999999999"), one},
		{"a handle", plantField(1, "somebody"), one},
		{"an avatar", plantField(2, "https://a.example/b"), one},
		{"a top language", plantField(3, "c"), one},
		{"a streak's first day", plantField(4, fmt.Sprint(int(today)-9)), one},
		{"a streak's last day", plantField(5, ""), one},
		{"a zone", plantField(6, "Asia/Tokyo"), one},
	}
}

// ghostBoard makes a board of a language nobody has seconds in.
func (f *fixture) ghostBoard() (scores, members string) {
	f.t.Helper()
	_, err := f.checker.Builder.Build(f.ctx, boardOf(calendar.PeriodDay, "c"))
	require.NoError(f.t, err)
	return scoresKey(calendar.PeriodDay, "c"), membersKey(calendar.PeriodDay, "c")
}

// TestAPlaceBesideAWrongTotal: a user's total is wrong, so that the places that follow it differ from it and are right; and
// a place on another board is wrong for itself. It must be found, and healed, as if the total were right.
func TestAPlaceBesideAWrongTotal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	f.t = t
	scores, _ := f.ghostBoard()
	id := userID(1)
	f.exec(`UPDATE totals SET seconds = seconds + 1 WHERE user_id = $1 AND period = 'alltime' AND lang = ''`, id)
	f.plantGhost(scores, id.String(), 77)
	one := Count{Users: 1, Rows: 1, Seconds: 1}
	r := f.check(false)
	require.Equal(t, one, r.Totals)
	require.Equal(t, Count{Users: 1, Rows: 1, Seconds: 77}, r.Places)
	r = f.check(true)
	require.EqualValues(t, 2, r.Drift)
	require.EqualValues(t, 2, r.Healed)
	require.LessOrEqual(t, f.rdb.ZScore(t.Context(), scores, id.String()).Val(), 0.0)
	require.Zero(t, f.check(false).Drift)
}

// TestUsersStuckAfterARestore: Postgres was restored to an older state, in which versions are lower than those that boards
// hold. Who changes then is refused by every board and stays pending. It must be found although it is pending, and healed:
// a user who grew, one who left a board, and one who is gone.
func TestUsersStuckAfterARestore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	f.t = t
	scores, members := f.ghostBoard()
	grew, left, gone := userID(1), userID(2), userID(4)
	_, err := f.pool.Exec(t.Context(), `UPDATE users SET version = version + 100`)
	require.NoError(t, err)
	_, err = f.pool.Exec(t.Context(), `INSERT INTO outbox SELECT id, version FROM users`)
	require.NoError(t, err)
	f.settle(t)
	// The tombstones of two who were on a board of which the restored state knows nothing.
	for _, id := range []uuid.UUID{left, gone} {
		f.plantGhost(scores, id.String(), -float64(time.Now().Unix()))
		require.NoError(t, f.rdb.HSet(t.Context(), members, id.String(), "101\x00").Err())
	}
	_, err = f.pool.Exec(t.Context(), `UPDATE users SET version = version - 100`)
	require.NoError(t, err)
	f.upload(t, noon.Add(-8*time.Hour).Unix(), 1)
	_, err = f.agg.Cycle(t.Context(), &noon)
	require.NoError(t, err)
	f.exec(`INSERT INTO totals VALUES ($1, 'day', $2, 'c', 0)`, left, today)
	f.exec(`INSERT INTO outbox SELECT id, version FROM users WHERE id = $1`, left)
	f.exec(`INSERT INTO outbox VALUES ($1, 3)`, gone)
	_, err = f.checker.Publisher.Cycle(t.Context(), &noon)
	require.NoError(t, err)
	require.Len(t, f.stored()["outbox"], 3, "the boards refuse them")

	r := f.check(false)
	require.Positive(t, r.Places.Users)
	r = f.check(true)
	require.Equal(t, r.Drift, r.Healed)
	require.Empty(t, f.stored()["outbox"])
	require.Zero(t, f.check(false).Drift)
	var total float64
	require.NoError(t, f.pool.QueryRow(t.Context(),
		`SELECT seconds FROM totals WHERE user_id = $1 AND period = 'alltime' AND lang = ''`, grew).Scan(&total))
	require.Equal(t, total, f.rdb.ZScore(t.Context(), scoresKey(calendar.PeriodAllTime, ""), grew.String()).Val())
}

// TestBoardsThatAreOnlyWrittenAreCheckedToo: a board that is not kept any more, and not gone yet, can keep its users pending.
func TestBoardsThatAreOnlyWrittenAreCheckedToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	f.t = t
	kept, err := f.checker.Builder.Kept(t.Context(), &noon)
	require.NoError(t, err)
	clean := f.check(false)
	require.EqualValues(t, len(kept), clean.Boards)
	last := leaderboard.Board{Span: calendar.SpanOf(calendar.PeriodDay, today-2)}
	require.NotContains(t, kept, last)
	_, err = f.checker.Builder.Build(t.Context(), last)
	require.NoError(t, err)
	key := fmt.Sprintf("{lb:day:%s:}:z", last.StartsOn)
	require.NoError(t, f.rdb.ZAddXX(t.Context(), key, redis.Z{Score: 5, Member: userID(2).String()}).Err())
	r := f.check(true)
	require.Equal(t, clean.Boards+1, r.Boards)
	require.EqualValues(t, 1, r.Places.Users)
	require.EqualValues(t, 1, r.Healed)
	require.Zero(t, f.check(false).Drift)
}
