package leaderboard

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// TestProbesDoNotScan: most languages have no totals. With statistics the planner sees that few languages make up all totals,
// and would look for each of the others in all of them.
func TestProbesDoNotScan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO totals SELECT lpad(to_hex(i), 32, '0')::uuid, p, '2026-06-15'::date, l, i
		FROM generate_series(1, 3000) i, unnest(ARRAY['day', 'week']) p, unnest(ARRAY['', 'c', 'go']) l`)
	f.exec(`VACUUM ANALYZE totals`)
	arg := []any{[]string{}, []calendar.Day{}, []string{"", "c"}}
	for _, s := range calendar.Kept(noon) {
		arg[0], arg[1] = append(arg[0].([]string), string(s.Period)), append(arg[1].([]calendar.Day), s.StartsOn)
	}
	for i := range 50 {
		arg[2] = append(arg[2].([]string), fmt.Sprintf("lang-%d", i))
	}
	for _, mode := range testenv.PlanModes {
		require.Less(t, testenv.RowsTouched(t, f.pool, mode, dbsqlc.LeaderboardLanguagesWithTotals, arg...), 5000.0, mode)
	}
}
