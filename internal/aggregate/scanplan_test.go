package aggregate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

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
			for _, mode := range testenv.PlanModes {
				t.Run(name+"/"+known+"/"+mode, func(t *testing.T) {
					t.Parallel()
					f := newFixture(t)
					f.exec(`ALTER TABLE hot_runs SET (autovacuum_enabled = false)`)
					c.fill(f)
					if known == "statistics" {
						f.exec(`VACUUM ANALYZE hot_runs`)
					}
					now := time.Unix(noon, 0)
					require.LessOrEqual(t, testenv.RowsTouched(t, f.pool, mode, dbsqlc.ScanDueUsers, &now), c.most)
				})
			}
		}
	}
}

// TestScanStaysCheap: one cycle that had much to merge makes Postgres believe that all cycles cost that much, and leaves a
// table with few rows on many pages. The cycles after it must not come to read that table whole.
func TestScanStaysCheap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`ALTER TABLE hot_runs SET (autovacuum_enabled = false)`)
	f.exec(`INSERT INTO hot_runs (user_id, first_s, last_s) SELECT md5('user-' || i)::uuid, $1::bigint - 60 * e - i % 60, $1::bigint - 60 * e - i % 60
		FROM generate_series(20, 0, -5) e, generate_series(1, 4000) i`, noon)
	f.exec(`VACUUM ANALYZE hot_runs`)
	// As with large tables, for which it does not pay.
	one := testenv.OneConn(t, f.pool, map[string]string{"enable_bitmapscan": "off"})
	agg, now := New(one, NewFinalizer(enqueue), clock.System{}, testenv.Logger(t), 1), time.Unix(noon, 0)
	wholeReads := func() (n int) {
		_, err := one.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`)
		require.NoError(t, err)
		require.NoError(t, one.QueryRow(t.Context(), `SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'hot_runs'`).Scan(&n))
		return n
	}
	var before int
	for i := range 12 {
		stats, err := agg.Cycle(t.Context(), &now)
		require.NoError(t, err)
		require.Zero(t, stats.Due)
		if i == 0 {
			f.exec(`VACUUM ANALYZE hot_runs`)
			before = wholeReads()
		}
	}
	require.Equal(t, before, wholeReads())
}
