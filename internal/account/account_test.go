package account

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	c, err := b.Create(t.Context(), NewUser{Handle: "Ada-1", Zone: "US/Pacific", Mode: activity.ModeSummary, AvatarURL: "https://x/a.png"})
	require.NoError(t, err)
	require.Equal(t, "Ada-1", c.Handle)
	id, err := admission.ParseToken(c.Token)
	require.NoError(t, err)
	require.Equal(t, c.ID, id)
	hash := admission.HashToken(c.Token)
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM users WHERE id = $1 AND token_hash = $2`, c.ID, hash[:]))
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM users u WHERE u::text LIKE '%' || $1 || '%'`, c.Token[4:]))
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM user_zones WHERE user_id = $1 AND from_s = 0 AND zone = 'US/Pacific'`, c.ID))

	me, err := b.Me(t.Context(), c.ID)
	require.NoError(t, err)
	avatar := "https://x/a.png"
	require.WithinDuration(t, clock.System{}.Now(), me.CreatedAt, time.Minute)
	me.CreatedAt = time.Time{}
	require.Equal(t, Facts{ID: c.ID, Handle: "Ada-1", AvatarURL: &avatar, Mode: activity.ModeSummary, Zone: "US/Pacific",
		Rejections: map[string]int64{}}, me)

	_, err = b.Create(t.Context(), NewUser{Handle: "Ada-1"})
	require.ErrorIs(t, err, ErrHandleTaken)
	c, err = b.Create(t.Context(), NewUser{Handle: "ada-1"})
	require.NoError(t, err, "case counts")
	require.Equal(t, activity.ModeFull, b.stored(t, c.ID).Mode)
	require.Equal(t, []string{"UTC"}, b.zones(t, c.ID))
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for _, u := range []NewUser{
		{Handle: ""}, {Handle: strings.Repeat("a", 40)}, {Handle: "a_b"}, {Handle: "a b"}, {Handle: "é"}, {Handle: "a\n"},
		{Handle: "ok", Zone: "Local"}, {Handle: "ok", Zone: "../UTC"}, {Handle: "ok", Mode: "Full"},
	} {
		_, err := b.Create(t.Context(), u)
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid, "%+v", u)
	}
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM users`))
	_, err := b.Create(t.Context(), NewUser{Handle: strings.Repeat("a", 39)})
	require.NoError(t, err)
}

func TestMe(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	_, err := b.Me(t.Context(), uuid.New())
	require.ErrorIs(t, err, ErrUnknownUser)

	user, other := b.mustUser(t, activity.ModeOff), b.mustUser(t, activity.ModeFull)
	b.mustExec(t, `UPDATE users SET streak_first_on = '2026-06-08', streak_last_on = '2026-06-09', longest_streak_days = 7
		WHERE id = $1`, user)
	b.mustExec(t, `INSERT INTO rejections (user_id, at, reason, count) VALUES
		($1, now(), 'too_old', 2), ($1, now() - interval '6 days', 'too_old', 3), ($1, now(), 'bad_id', 1),
		($1, now() - interval '8 days', 'too_new', 9), ($2, now(), 'too_new', 5)`, user, other)
	me, err := b.Me(t.Context(), user)
	require.NoError(t, err)
	last := calendar.Date(2026, 6, 9)
	require.Equal(t, Streak{CurrentDays: 2, LongestDays: 7, LastActiveDate: &last}, me.Streak)
	require.Equal(t, map[string]int64{"too_old": 5, "bad_id": 1}, me.Rejections)

	b.clock.Advance(12 * time.Hour) // the 11th in UTC: the last day is no longer yesterday
	me, err = b.Me(t.Context(), user)
	require.NoError(t, err)
	require.Zero(t, me.Streak.CurrentDays)
	require.NoError(t, b.ChangeZone(t.Context(), user, "America/New_York")) // where it is still the 10th
	me, err = b.Me(t.Context(), user)
	require.NoError(t, err)
	require.Equal(t, int64(2), me.Streak.CurrentDays)
}
