package aggregate

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// planNode is a part of a plan as EXPLAIN (ANALYZE, FORMAT JSON) prints it.
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Joined   float64    `json:"Rows Removed by Join Filter"`
	Filtered float64    `json:"Rows Removed by Filter"`
	Plans    []planNode `json:"Plans"`
}

// touched is how many rows the node and those below it passed on or looked at in vain.
func (n *planNode) touched() float64 {
	sum := (n.Rows + n.Joined + n.Filtered) * n.Loops
	for i := range n.Plans {
		sum += n.Plans[i].touched()
	}
	return sum
}

// scanTouches runs the scan, undoes it, and returns how many rows it touched.
func scanTouches(t *testing.T, pool *pgxpool.Pool, mode string) float64 {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = "+mode)
	require.NoError(t, err)
	var text []byte
	now := time.Unix(noon, 0)
	require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+dbsqlc.ScanDueUsers, &now).Scan(&text))
	var plans []struct {
		Plan planNode `json:"Plan"`
	}
	require.NoError(t, json.Unmarshal(text, &plans))
	return plans[0].Plan.touched()
}

// TestScanCost counts what the scan touches, whatever the planner knows: it grows with the marks whose time has come, not
// with their square, and not with those of users whose sessions are open.
func TestScanCost(t *testing.T) {
	t.Parallel()
	const marks = `INSERT INTO hot_runs (user_id, first_s, last_s) SELECT md5('user-' || i)::uuid, $1::bigint - 60 * e, $1::bigint - 60 * e
		FROM generate_series($4::int, 0, -1) e, generate_series($2::int, $3::int) i`
	for name, c := range map[string]struct {
		fill func(f *fixture)
		most float64
	}{
		"open sessions with a mark a minute": {func(f *fixture) { f.exec(marks, noon, 1, 300, 19) }, 40 * 300 * 20},
		"few due among open sessions": {func(f *fixture) {
			f.exec(marks, noon-1000, 1, 3, 0)
			f.exec(marks, noon, 4, 9000, 0)
		}, 200},
	} {
		for _, known := range []string{"statistics", "no statistics"} {
			for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
				t.Run(name+"/"+known+"/"+mode, func(t *testing.T) {
					t.Parallel()
					f := newFixture(t)
					f.exec(`ALTER TABLE hot_runs SET (autovacuum_enabled = false)`)
					c.fill(f)
					if known == "statistics" {
						f.exec(`VACUUM ANALYZE hot_runs`)
					}
					require.LessOrEqual(t, scanTouches(t, f.pool, mode), c.most)
				})
			}
		}
	}
}
