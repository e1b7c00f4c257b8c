package leaderboard

import (
	"encoding/json"
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
		text := testenv.Explain(t, f.pool, mode, "ANALYZE, FORMAT JSON", dbsqlc.LeaderboardLanguagesWithTotals, arg...)
		var plans []struct {
			Plan planNode `json:"Plan"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &plans))
		require.Less(t, plans[0].Plan.touched(), 5000.0, "%s:\n%s", mode, text)
	}
}

// planNode is a part of a plan as EXPLAIN prints it.
type planNode struct {
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Filtered float64    `json:"Rows Removed by Filter"`
	Plans    []planNode `json:"Plans"`
}

// touched is how many rows the node and those below it passed on or looked at in vain.
func (n *planNode) touched() float64 {
	sum := (n.Rows + n.Filtered) * n.Loops
	for i := range n.Plans {
		sum += n.Plans[i].touched()
	}
	return sum
}
