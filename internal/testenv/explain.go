package testenv

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// PlanModes are the two ways in which a statement that is prepared once may be planned: for the values of each call, or for
// any. Which of them a server takes after the fifth call depends on what the first ones were thought to cost.
var PlanModes = []string{"force_custom_plan", "force_generic_plan"}

// Explain prepares a statement, has it explained in a mode of PlanModes with options such as "ANALYZE, FORMAT JSON", undoes
// what it did, and returns the lines. An EXPLAIN with the arguments in its own place would always plan for these values.
func Explain(t testing.TB, pool *pgxpool.Pool, mode, options, sql string, args ...any) string {
	t.Helper()
	ctx := t.Context()
	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	for _, s := range []string{"SET LOCAL plan_cache_mode = " + mode, "PREPARE explained AS " + sql} {
		_, err = tx.Exec(ctx, s)
		require.NoError(t, err)
	}
	defer func() { _, _ = tx.Exec(ctx, "DEALLOCATE explained") }()
	explained := fmt.Sprintf("EXPLAIN (%s) EXECUTE explained", options)
	if len(args) > 0 {
		explained += "(" + strings.Join(literals(t, tx, args), ", ") + ")"
	}
	rows, err := tx.Query(ctx, explained)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// RowsTouched runs a statement in a mode of PlanModes, undoes it, and returns how many rows its plan passed on or looked at in
// vain.
func RowsTouched(t testing.TB, pool *pgxpool.Pool, mode, sql string, args ...any) float64 {
	t.Helper()
	var plans []struct {
		Plan planNode `json:"Plan"`
	}
	require.NoError(t, json.Unmarshal([]byte(Explain(t, pool, mode, "ANALYZE, FORMAT JSON", sql, args...)), &plans))
	return plans[0].Plan.touched()
}

// planNode is a part of a plan as EXPLAIN (ANALYZE, FORMAT JSON) prints it.
type planNode struct {
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Joined   float64    `json:"Rows Removed by Join Filter"`
	Filtered float64    `json:"Rows Removed by Filter"`
	Plans    []planNode `json:"Plans"`
}

func (n *planNode) touched() float64 {
	sum := (n.Rows + n.Joined + n.Filtered) * n.Loops
	for i := range n.Plans {
		sum += n.Plans[i].touched()
	}
	return sum
}

// literals writes the arguments of the statement explained as SQL.
func literals(t testing.TB, tx pgx.Tx, args []any) []string {
	t.Helper()
	rows, err := tx.Query(t.Context(), `SELECT unnest(parameter_types)::text FROM pg_prepared_statements WHERE name = 'explained'`)
	require.NoError(t, err)
	types, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Len(t, args, len(types))
	out := make([]string, len(args))
	for i, arg := range args {
		require.NoError(t, tx.QueryRow(t.Context(), fmt.Sprintf("SELECT quote_nullable(($1::%s)::text) || '::%[1]s'", types[i]), arg).Scan(&out[i]))
	}
	return out
}
