package profile_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/profile"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The mode may change between the two steps: each decides by what it reads itself.
func TestEachStepShowsWhatTheViewerMaySee(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	r := profile.NewReader(pool, clock.NewManual(time.Date(2026, 6, 17, 9, 30, 0, 0, time.UTC)), []string{"go"})
	for _, mode := range []activity.Mode{activity.ModeFull, activity.ModeSummary, activity.ModeOff} {
		id, handle := uuid.New(), "user-"+string(mode)
		_, err := pool.Exec(t.Context(), `INSERT INTO users (id, handle, token_hash, privacy) VALUES ($1, $2, '', $3)`, id, handle, mode)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `INSERT INTO totals (user_id, period, starts_on, lang, seconds)
			VALUES ($1, 'alltime', '1970-01-01', '', 100), ($1, 'alltime', '1970-01-01', 'in-house', 60), ($1, 'alltime', '1970-01-01', 'go', 40)`, id)
		require.NoError(t, err)
		for _, viewer := range []uuid.UUID{uuid.Nil, uuid.New(), id} {
			u, errUser := r.User(t.Context(), viewer, handle)
			stats, errStats := r.Stats(t.Context(), viewer, id)
			if privacy.See(privacy.ViewerOf(viewer, id), mode, privacy.Profile) == privacy.Hidden {
				require.ErrorIs(t, errUser, profile.ErrNotFound)
				require.ErrorIs(t, errStats, profile.ErrNotFound)
				continue
			}
			require.NoError(t, errUser)
			require.NoError(t, errStats)
			require.Equal(t, id, u.ID)
			require.Equal(t, profile.Stats{Seconds: 100, TopLang: "go"}, stats)
		}
	}
	_, err := r.User(t.Context(), uuid.Nil, "nobody")
	require.ErrorIs(t, err, profile.ErrNotFound)
	_, err = r.Stats(t.Context(), uuid.Nil, uuid.New())
	require.ErrorIs(t, err, profile.ErrNotFound)
}
