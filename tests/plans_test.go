package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

const plannedEachTime = "planned each time"

// readsAll are the statements that may read a table whole, or would if they were planned for whatever values, and why.
var readsAll = map[string]string{
	"CountersCount":         "counts all sessions, once a pass",
	"VerifyCountUsers":      "counts all users, once a pass",
	"OutboxBacklog":         "counts what is pending",
	"RecapMailCounts":       "counts the mails of a week",
	"RecapMailPrune":        "deletes old weeks, once a job",
	"EngagementDeleteStray": "gathered counts; there are few, as flushes take them",
	"EngagementListStale":   "the same",
	"PruneListUsers":        plannedEachTime,
	"PruneStretches":        plannedEachTime,
	"RecapMailClaim":        plannedEachTime,
	"ScanDueUsers":          plannedEachTime,
}

// Many users, each with a past, open sessions, and something in each table of which there is much in a large installation.
var manyRows = []string{
	`INSERT INTO users (id, handle, token_hash) SELECT md5('u' || i)::uuid, 'user-' || i, '\x00' FROM generate_series(1, $1::int) i`,
	`CREATE TEMP TABLE u ON COMMIT DROP AS SELECT id, row_number() OVER () AS i, n, md5(id::text || n)::uuid AS sid,
		lead(id, n::int, (SELECT id FROM users LIMIT 1)) OVER (PARTITION BY n) AS other FROM users, generate_series(1, 3) n`,
	`INSERT INTO user_zones SELECT id, 0, 'UTC' FROM users`,
	`INSERT INTO sessions SELECT sid, id, t, t + interval '1 hour', 'UTC', 60, 60, 60, 'go', 60, t
		FROM u, LATERAL (SELECT now() - n * interval '1 day' - i % 7 * interval '1 hour' AS t) x`,
	`INSERT INTO session_seconds SELECT user_id, id, started_at::date, 'go', 3600 FROM sessions`,
	`INSERT INTO session_details SELECT user_id, id FROM sessions`,
	`INSERT INTO session_counters SELECT user_id, id FROM sessions`,
	`INSERT INTO session_aliases SELECT gen_random_uuid(), user_id, id FROM sessions`,
	`INSERT INTO archives SELECT user_id, id, 0, '\x00', extract(epoch FROM ended_at)::bigint FROM sessions`,
	`INSERT INTO archive_details SELECT user_id, id, 0, '\x00' FROM sessions`,
	`INSERT INTO deleted_stretches SELECT user_id, extract(epoch FROM started_at)::bigint, extract(epoch FROM ended_at)::bigint FROM sessions`,
	`INSERT INTO totals SELECT user_id, p, date_trunc('day', started_at)::date, l, 3600
		FROM sessions, unnest(ARRAY['day', 'week', 'month']) p, unnest(ARRAY['', 'go']) l ON CONFLICT DO NOTHING`,
	`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines) SELECT id, sid, 1000 * i, 'go', 1, 1 FROM u`,
	`INSERT INTO hot_runs (user_id, first_s, last_s) SELECT id, i, i FROM u`,
	`INSERT INTO rejections SELECT id, now() - i % 999 * interval '1 minute', 'too_old', 1 FROM u`,
	`INSERT INTO outbox SELECT id, 1 FROM users`,
	`INSERT INTO user_counters (user_id) SELECT id FROM users`,
	`INSERT INTO view_days SELECT id, current_date - n::int, 1, 1 FROM u`,
	`INSERT INTO flushes (id) SELECT sid FROM u`,
	`INSERT INTO kudos SELECT id, sid, other FROM u`,
	`INSERT INTO comments SELECT sid, id, sid, other, 'well done' FROM u`,
	`INSERT INTO counter_deltas (owner_id, session_id, kudos) SELECT id, sid, 1 FROM u`,
	`INSERT INTO groups SELECT id, id, 'friends' FROM users`,
	`INSERT INTO group_members SELECT id, id FROM users`,
	`INSERT INTO group_members SELECT id, other FROM u ON CONFLICT DO NOTHING`,
	`INSERT INTO group_invitations SELECT id, other FROM u ON CONFLICT DO NOTHING`,
	`INSERT INTO follows SELECT id, other FROM u WHERE id <> other ON CONFLICT DO NOTHING`,
	`INSERT INTO former_handles SELECT 'was-' || handle, id, now() FROM users`,
	`INSERT INTO recap_mails (week, user_id) SELECT current_date - 7 * n::int, id FROM u`,
}

// TestNoStatementReadsATableWhole: a server may come to plan a statement for whatever values. With many users such a plan must
// not read a whole table to find what is one user's, or what little is due.
func TestNoStatementReadsATableWhole(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	fillAll(t, pool, 10_000)
	statements := queries(t)
	require.Greater(t, len(statements), 200)
	small := []string{"accepted_ages", "finalize_failures", "horizon", "service_tokens", "signing_keys", "users_off"}
	for name := range readsAll {
		require.Contains(t, statements, name)
	}
	read := map[string][]string{}
	for name, sql := range statements {
		for _, table := range readWhole(explainForAny(t, pool, sql)) {
			if !slices.Contains(small, table) && readsAll[name] == "" {
				read[name] = append(read[name], table)
			}
		}
	}
	require.Empty(t, read)
}

var (
	tableScan = regexp.MustCompile(`Seq Scan on (\w+)`)
	indexScan = regexp.MustCompile(`Index (?:Only )?Scan(?: Backward)? using (\w+)|Bitmap Index Scan on (\w+)`)
	parameter = regexp.MustCompile(`\$(\d+)`)
)

// readWhole are the tables and indexes that a plan reads from end to end.
func readWhole(plan string) (names []string) {
	lines := strings.Split(plan, "\n")
	for i, line := range lines {
		if m := tableScan.FindStringSubmatch(line); m != nil {
			names = append(names, m[1])
		}
		m := indexScan.FindStringSubmatch(line)
		if m != nil && (i+1 == len(lines) || !strings.Contains(lines[i+1], "Index Cond:")) {
			names = append(names, m[1]+m[2])
		}
	}
	return names
}

// TestPlannedEachTime: those that are said to be are.
func TestPlannedEachTime(t *testing.T) {
	t.Parallel()
	var code []byte
	require.NoError(t, filepath.WalkDir("../internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "dbsqlc") {
			return err
		}
		text, err := os.ReadFile(path)
		code = append(code, text...)
		return err
	}))
	for name, why := range readsAll {
		if why == plannedEachTime {
			calls := regexp.MustCompile(`\.`+name+`\(\w+, ([\w.]+)`).FindAllSubmatch(code, -1)
			require.NotEmpty(t, calls, name)
			for _, c := range calls {
				require.Equal(t, "store.PlanEachTime", string(c[1]), name)
			}
		}
	}
}

// TestClearingZeroTotalsFollowsThePage: when many totals became zero, of which statistics know nothing yet, those of the users
// of one page are found by user.
func TestClearingZeroTotalsFollowsThePage(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	_, err := pool.Exec(t.Context(), `ALTER TABLE totals SET (autovacuum_enabled = false)`)
	require.NoError(t, err)
	fillAll(t, pool, 1000)
	_, err = pool.Exec(t.Context(), `INSERT INTO totals SELECT id, 'day', '2020-01-01'::date + n, 'go', 0 FROM users, generate_series(1, 8) n`)
	require.NoError(t, err)
	rows, err := pool.Query(t.Context(), `SELECT id FROM users ORDER BY id LIMIT 50`)
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	for _, mode := range testenv.PlanModes {
		require.Less(t, testenv.RowsTouched(t, pool, mode, dbsqlc.OutboxDeleteZeroTotals, ids, make([]int64, 50)), 50*8*10.0, mode)
	}
}

// fillAll fills all tables with rows of so many users.
func fillAll(t *testing.T, pool *pgxpool.Pool, users int) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	for i, sql := range manyRows {
		var args []any
		if i == 0 {
			args = []any{users}
		}
		_, err := tx.Exec(t.Context(), sql, args...)
		require.NoError(t, err, sql)
	}
	require.NoError(t, tx.Commit(t.Context()))
	_, err = pool.Exec(t.Context(), `VACUUM (ANALYZE)`)
	require.NoError(t, err)
}

// queries are the statements of db/queries by name, as they were generated.
func queries(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../internal/store/dbsqlc/*.sql.go")
	require.NoError(t, err)
	found := map[string]string{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
				if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					sql, err := strconv.Unquote(lit.Value)
					require.NoError(t, err)
					if strings.HasPrefix(sql, "-- name: ") {
						found[v.Names[0].Name] = sql
					}
				}
			}
			return true
		})
	}
	return found
}

// explainForAny is the plan of a statement for whatever values, which are left out.
func explainForAny(t *testing.T, pool *pgxpool.Pool, sql string) string {
	t.Helper()
	var parameters int
	for _, m := range parameter.FindAllStringSubmatch(sql, -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		parameters = max(parameters, n)
	}
	// What the ingest statements of one transaction tell one another.
	sql = strings.NewReplacer(`current_setting('commma.admitted')`, `''`, `current_setting('commma.horizon')`, `'0'`).Replace(sql)
	return testenv.Explain(t, pool, "force_generic_plan", "COSTS OFF", sql, make([]any, parameters)...)
}
