package profile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/profile"
	"github.com/commma/commma/internal/testenv"
)

func mustUser(t *testing.T, pool *pgxpool.Pool, handle, zone string, mode activity.Mode) uuid.UUID {
	t.Helper()
	id := uuid.New()
	_, err := pool.Exec(t.Context(), `INSERT INTO users (id, handle, token_hash, privacy, streak_first_on, streak_last_on, longest_streak_days)
		VALUES ($1, $2, '', $3, '2026-06-15', '2026-06-17', 3)`, id, handle, mode)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO user_zones VALUES ($1, 0, $2)`, id, zone)
	require.NoError(t, err)
	return id
}

func TestHeatmap(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	c := clock.NewManual(time.Date(2026, 6, 17, 10, 30, 0, 0, time.UTC)) // Wednesday, and in Kiritimati Thursday
	r := profile.NewReader(pool, c, []string{"go"})
	id := mustUser(t, pool, "ada", "Pacific/Kiritimati", activity.ModeFull)
	_, err := pool.Exec(t.Context(), `INSERT INTO totals (user_id, period, starts_on, lang, seconds)
		SELECT $1, p.period, p.day::date, l.lang, l.n FROM (VALUES ('day', '2026-06-17'), ('day', '2026-06-15'), ('week', '2026-06-15'), ('day', '2025-06-18'),
			('day', '2025-06-19'), ('month', '2026-06-01')) p (period, day), (VALUES ('', 100), ('go', 60), ('c', 40)) l (lang, n)`, id)
	require.NoError(t, err)

	read := func(days *profile.Days) profile.Heatmap {
		m, err := r.Heatmap(t.Context(), id, "", days)
		require.NoError(t, err)
		require.Len(t, m.Seconds, int(m.To-m.From)+1)
		return m
	}
	sum := func(m profile.Heatmap) (n int64) {
		for _, s := range m.Seconds {
			n += s
		}
		return n
	}
	m := read(&profile.Days{From: calendar.Date(2026, 6, 14), To: calendar.Date(2026, 6, 17)})
	require.Equal(t, []int64{0, 100, 0, 100}, m.Seconds)
	require.Equal(t, "ada", m.Handle)
	require.EqualValues(t, 3, m.CurrentDays, "it ended yesterday, where the user is")

	m = read(nil)
	require.Equal(t, profile.Days{From: calendar.Date(2025, 6, 19), To: calendar.Date(2026, 6, 18)}, m.Days, "a year that ends today, where the user is")
	require.EqualValues(t, 300, sum(m))

	c.Advance(24 * time.Hour)
	require.EqualValues(t, 0, read(nil).CurrentDays, "decided when it is read")

	m = read(&profile.Days{From: 0, To: 0})
	require.Equal(t, []int64{0}, m.Seconds)
	for _, days := range []profile.Days{{From: 2, To: 1}, {From: 0, To: 366}, {From: 0, To: 1 << 20}} {
		_, err := r.Heatmap(t.Context(), id, "", &days)
		require.ErrorIs(t, err, profile.ErrBadDays, fmt.Sprint(days))
	}
	require.Len(t, read(&profile.Days{From: 0, To: 365}).Seconds, profile.MaxHeatmapDays)
	_, err = r.Heatmap(t.Context(), uuid.New(), "", nil)
	require.ErrorIs(t, err, profile.ErrNotFound)
	_, err = r.Heatmap(t.Context(), id, "nobody", nil)
	require.ErrorIs(t, err, profile.ErrNotFound)
}

func TestHeatmapShowsWhatTheViewerMaySee(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	r := profile.NewReader(pool, clock.NewManual(time.Date(2026, 6, 17, 9, 30, 0, 0, time.UTC)), nil)
	for _, mode := range []activity.Mode{activity.ModeFull, activity.ModeSummary, activity.ModeOff} {
		handle := "user-" + string(mode)
		id := mustUser(t, pool, handle, "UTC", mode)
		for _, viewer := range []uuid.UUID{uuid.Nil, uuid.New(), id} {
			_, err := r.Heatmap(t.Context(), viewer, handle, nil)
			if privacy.See(privacy.ViewerOf(viewer, id), mode, privacy.Heatmap) == privacy.Hidden {
				require.ErrorIs(t, err, profile.ErrNotFound)
			} else {
				require.NoError(t, err)
			}
		}
	}
}
