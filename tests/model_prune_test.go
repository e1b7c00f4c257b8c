package tests

import (
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
)

// prune moves the horizon to somewhere among a user's events, and prunes up to it, as if all processes had long said that they
// accept nothing older, and the margin had passed: nothing is being stored meanwhile. From then on no older event is accepted,
// and what stands must stay as it is.
func (s *sequence) prune() {
	u := s.drawUser()
	if len(u.sent) == 0 {
		return
	}
	beside := rapid.SampledFrom(u.sent).Draw(s.T, "horizon beside")
	at := beside.second() + drawOffset.Draw(s.T, "away")
	s.freed()
	now := clock.System{}.Now().Unix()
	if at <= s.horizon || at > now-int64(minAge.Seconds()) {
		return
	}
	_, err := s.pool.Exec(s.Context(), `DELETE FROM accepted_ages`)
	require.NoError(s, err)
	cfg := aggregate.PruneConfig{DefaultAge: time.Duration(now-at) * time.Second, Slack: time.Nanosecond, Margin: time.Nanosecond}
	for range 2 { // the horizon moves, and settles
		_, err = aggregate.NewPruner(s.pool, cfg).Prune(s.Context())
		require.NoError(s, err)
	}
	var settled int64
	require.NoError(s, s.pool.QueryRow(s.Context(), `SELECT from_s, settled_s FROM horizon`).Scan(&s.horizon, &settled))
	require.GreaterOrEqual(s, settled, at)
	s.note("prune up to %d", settled)
	s.observe(nil, false, true)
}

// minAge keeps the horizon away from the present: what happens there is for other steps.
const minAge = time.Hour

// resetHorizon takes the horizon of the sequence before back. Its users send nothing any more.
func (s *sequence) resetHorizon() {
	_, err := s.pool.Exec(s.Context(), `UPDATE horizon SET from_s = 0, settled_s = 0, advanced_at = now() - interval '1 hour'`)
	require.NoError(s, err)
}
