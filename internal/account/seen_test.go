package account

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
)

// Who goes off is forgotten as seen, and nothing more is kept until the user is back.
func TestModeOffForgetsWhenAUserWasSeen(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	id := b.mustUser(t, activity.ModeFull)
	b.mustExec(t, `UPDATE user_counters SET last_seen_at = now(), views = 7 WHERE user_id = $1`, id)
	require.NoError(t, b.ChangeMode(t.Context(), id, activity.ModeSummary))
	require.Empty(t, b.dropped)
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM user_counters WHERE user_id = $1 AND last_seen_at IS NOT NULL AND keeps`, id))

	require.NoError(t, b.ChangeMode(t.Context(), id, activity.ModeOff))
	require.Equal(t, []uuid.UUID{id}, b.dropped)
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM user_counters WHERE user_id = $1 AND last_seen_at IS NULL AND NOT keeps AND views = 7`, id))

	require.NoError(t, b.ChangeMode(t.Context(), id, activity.ModeFull))
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM user_counters WHERE user_id = $1 AND last_seen_at IS NULL AND keeps`, id))

	off := b.mustUser(t, activity.ModeOff)
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM user_counters WHERE user_id = $1 AND NOT keeps`, off))
}
