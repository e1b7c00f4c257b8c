package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// TestPlanEachTime: Postgres comes to plan a statement for whatever values, but not one that is planned each time.
func TestPlanEachTime(t *testing.T) {
	t.Parallel()
	pool := testenv.OneConn(t, testenv.Postgres(t), nil)
	const prepared = `SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%' || $1 || '%'`
	for name, db := range map[string]dbsqlc.DBTX{"plain": pool, "each time": store.PlanEachTime(pool)} {
		var got, n int
		sum := `SELECT $1::int + $2::int AS "` + name + `"`
		for i := range 7 {
			require.NoError(t, db.QueryRow(t.Context(), sum, i, 1).Scan(&got))
			require.Equal(t, i+1, got)
			rows, err := db.Query(t.Context(), sum, i, 2)
			require.NoError(t, err)
			require.True(t, rows.Next())
			rows.Close()
			_, err = db.Exec(t.Context(), sum, i, 3)
			require.NoError(t, err)
		}
		require.NoError(t, pool.QueryRow(t.Context(), prepared, `AS "`+name).Scan(&n))
		require.Equal(t, map[string]int{"plain": 1}[name], n, name)
	}
}
