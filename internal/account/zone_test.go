package account

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
)

func TestValidateZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "Europe/Berlin", "US/Pacific", "Asia/Calcutta", "Asia/Kolkata", "GB", "EST5EDT",
		"Etc/GMT+5", "Etc/GMT-14", "America/Argentina/ComodRivadavia", "America/North_Dakota/New_Salem", "Zulu", "W-SU", "GMT0"} {
		require.NoError(t, ValidateZone(name), name)
	}
	for _, name := range []string{"", "Local", "local", "utc", "Mars/Olympus", "Europe", "Europe/", "/Europe/Berlin",
		"/etc/localtime", "../Europe/Berlin", "Europe/../Europe/Berlin", "./UTC", `Europe\Berlin`, "europe/berlin",
		"Europe/Berlin ", " UTC", "UTC\n", "UTC\x00", "localtime", "posixrules", "Factory", "posix/Europe/Berlin",
		"right/Europe/Berlin", "tzdata.zi", "zone.tab", "+02:00", "UTC+2", strings.Repeat("A", 65), "Ünter/Den"} {
		err := ValidateZone(name)
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid, "%q", name)
		require.Equal(t, "timezone", invalid.Field)
	}
}

// zones are the user's zones, oldest first.
func (b *bundle) zones(t *testing.T, userID uuid.UUID) (zones []string) {
	t.Helper()
	rows, err := b.db.Query(t.Context(), `SELECT zone FROM user_zones WHERE user_id = $1 ORDER BY from_s`, userID)
	require.NoError(t, err)
	for rows.Next() {
		var z string
		require.NoError(t, rows.Scan(&z))
		zones = append(zones, z)
	}
	require.NoError(t, rows.Err())
	return zones
}

func TestChangeZone(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	user := b.mustUser(t, activity.ModeFull)
	var invalid *InvalidError
	require.ErrorAs(t, b.ChangeZone(t.Context(), user, "Mars/Olympus"), &invalid)
	require.ErrorIs(t, b.ChangeZone(t.Context(), uuid.New(), "UTC"), ErrUnknownUser)

	require.NoError(t, b.ChangeZone(t.Context(), user, "UTC"))
	require.Zero(t, b.stored(t, user).Version, "the same zone again changes nothing")
	require.Empty(t, b.enqueued)

	var before, from, after int64
	second := `SELECT floor(extract(epoch FROM clock_timestamp()))::bigint`
	require.NoError(t, b.db.QueryRow(t.Context(), second).Scan(&before))
	require.NoError(t, b.ChangeZone(t.Context(), user, "Asia/Calcutta"))
	require.NoError(t, b.db.QueryRow(t.Context(), second).Scan(&after))
	require.NoError(t, b.db.QueryRow(t.Context(), `SELECT max(from_s) FROM user_zones WHERE user_id = $1`, user).Scan(&from))
	require.LessOrEqual(t, before, from)
	require.LessOrEqual(t, from, after)
	require.Equal(t, []string{"UTC", "Asia/Calcutta"}, b.zones(t, user), "as it was given")
	require.Equal(t, []int64{1}, b.enqueued)

	me, err := b.Me(t.Context(), user)
	require.NoError(t, err)
	require.Equal(t, "Asia/Calcutta", me.Zone)
}

// Of two changes within a second the last wins, and so it does when the clock was set back between them.
func TestChangeZoneTwiceInASecond(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	user := b.mustUser(t, activity.ModeFull)
	future := clock.System{}.Now().Add(time.Hour).Unix()
	b.mustExec(t, `INSERT INTO user_zones (user_id, from_s, zone) VALUES ($1, $2, 'Asia/Tokyo')`, user, future)
	require.NoError(t, b.ChangeZone(t.Context(), user, "Europe/Berlin"))
	require.NoError(t, b.ChangeZone(t.Context(), user, "US/Pacific"))
	require.Equal(t, []string{"UTC", "US/Pacific"}, b.zones(t, user))
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM user_zones WHERE user_id = $1 AND from_s = $2`, user, future))
	require.NoError(t, b.ChangeZone(t.Context(), user, "US/Pacific"))
	require.Equal(t, []int64{1, 2}, b.enqueued)
}
