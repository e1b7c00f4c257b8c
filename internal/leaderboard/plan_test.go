package leaderboard

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// TestPlansWithoutStatistics: until a table is analysed the planner takes every equality for equally rare. It must not read a
// board to find one user's totals: not where it plans for the values at hand, nor for any.
func TestPlansWithoutStatistics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`ALTER TABLE totals SET (autovacuum_enabled = false)`)
	f.exec(`INSERT INTO totals SELECT lpad(to_hex(i), 32, '0')::uuid, p, '2026-06-15'::date, l, i
		FROM generate_series(1, 5000) i, unnest(ARRAY['week', 'month']) p, unnest(ARRAY['', 'c', 'go', 'zig']) l`)
	f.exec(`VACUUM totals`) // counts pages and rows, and makes reading the index alone look cheap
	b := boardOf(calendar.PeriodWeek, "")
	span := []any{testLangs, b.Period, b.StartsOn, b.Lang}
	for name, q := range map[string]struct {
		sql  string
		args []any
		want map[string]string // index by alias
	}{
		"get": {
			dbsqlc.LeaderboardGet, []any{testLangs, userID(7), b.Period, b.StartsOn, b.Lang},
			map[string]string{"t": "totals_pkey", "l": "totals_pkey"},
		},
		"below": {
			dbsqlc.LeaderboardPageBelow, append(slices.Clone(span), int64(9), userID(7), 100),
			map[string]string{"t": "totals_board", "l": "totals_pkey"},
		},
		"above": {
			dbsqlc.LeaderboardPageAbove, append(slices.Clone(span), int64(9), userID(7), 100),
			map[string]string{"t": "totals_board", "l": "totals_pkey"},
		},
		"verify": {
			dbsqlc.VerifyBoardTotals, []any{b.Period, b.StartsOn, b.Lang, int64(4990), userID(7), 100},
			map[string]string{"t": "totals_board"},
		},
		"verify users": {
			dbsqlc.VerifyBoardUsers, []any{b.Period, b.StartsOn, b.Lang, testLangs, []uuid.UUID{userID(7), userID(8)}},
			map[string]string{"t": "totals_pkey", "l": "totals_pkey"},
		},
		"count": {
			dbsqlc.LeaderboardCountBefore, []any{int64(4990), b.Period, b.StartsOn, b.Lang, userID(7)},
			map[string]string{"t": "totals_board"},
		},
	} {
		for _, mode := range testenv.PlanModes {
			t.Run(name+" "+mode, func(t *testing.T) {
				plan := testenv.Explain(t, f.pool, mode, "COSTS OFF", q.sql, q.args...)
				for alias, index := range q.want {
					require.Regexp(t, regexp.MustCompile(fmt.Sprintf(`%s on totals %s|Bitmap Index Scan on %[1]s`, index, alias)), plan)
				}
				if q.want["t"] == "totals_pkey" {
					require.NotContains(t, plan, "totals_board")
				}
				require.NotContains(t, plan, "Seq Scan on totals")
			})
		}
	}
}
