package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// crowd is an installation with a past: users who each have so many finalized sessions, so many a day, of which the last
// ended so many days before noon. Each row is there that finalizing would have left, apart from details: all are on summary.
type crowd struct{ users, sessions, perDay, daysAgo int }

// The id of user i, and of its session n. Like real ones they are in no order.
const (
	uid = `md5('user-' || i)::uuid`
	sid = `md5('session-' || i || '-' || n)::uuid`
)

// Session n of user i, two hours apart within a day, lasts base + i % 600 seconds.
const pastSQL = `(SELECT n, 600 + n * 37 % 600 AS base, (ARRAY['go', 'rust'])[1 + n % 2] AS lang,
	$2::timestamptz - make_interval(days => $3 + n / $4, hours => 2 * (n % $4)) AS ended_at
	FROM generate_series($5::int, $6::int) n) p CROSS JOIN generate_series(1, $1::int) i`

var pastRows = []string{
	`INSERT INTO sessions SELECT ` + sid + `, ` + uid + `, ended_at - make_interval(secs => base + i % 600), ended_at, 'UTC',
		20, 100, 20, lang, 10, ended_at FROM ` + pastSQL,
	`INSERT INTO session_seconds SELECT ` + uid + `, ` + sid + `, ended_at::date, lang, base + i % 600 FROM ` + pastSQL,
	// Archives are pruned a day after the accepted age.
	`INSERT INTO archives (user_id, session_id, chunk, events, ended_s) SELECT ` + uid + `, ` + sid + `, 0, decode(repeat('5a', 300), 'hex'),
		extract(epoch FROM ended_at)::bigint FROM ` + pastSQL + ` WHERE ended_at > $2::timestamptz - interval '31 days'`,
}

const pastTotals = `INSERT INTO totals
	SELECT ` + uid + `, t.period, t.starts_on, t.lang, t.base + t.n * (i % 600)
	FROM (
		SELECT s.period, s.starts_on, l.lang, sum(p.base) AS base, count(*) AS n
		FROM (SELECT 600 + n * 37 % 600 AS base, (ARRAY['go', 'rust'])[1 + n % 2] AS lang,
			($2::timestamptz - make_interval(days => $3 + n / $4, hours => 2 * (n % $4)))::date AS day
			FROM generate_series($5::int, $6::int) n) p
		CROSS JOIN LATERAL (SELECT unnest(ARRAY['day', 'week', 'month', 'alltime']) AS period, unnest(ARRAY[p.day,
			date_trunc('week', p.day::timestamp)::date, date_trunc('month', p.day::timestamp)::date, '1970-01-01'::date]) AS starts_on) s
		CROSS JOIN LATERAL (SELECT unnest(ARRAY[p.lang, '']) AS lang) l
		GROUP BY 1, 2, 3
	) t CROSS JOIN generate_series(1, $1::int) i`

// seed fills a database with the crowd. Rows lie in the order of time, as they would have come.
func (c crowd) seed(b *testing.B, db *pgxpool.Pool) {
	b.Helper()
	exec(b, db, `INSERT INTO users (id, handle, token_hash, privacy, version, session_count) SELECT `+uid+`, 'user-' || i, '\x00', 'summary', 1, $2
		FROM generate_series(1, $1::int) i`, c.users, c.sessions)
	exec(b, db, `INSERT INTO user_zones SELECT id, 0, 'UTC' FROM users`)
	if c.sessions > 0 {
		rebuild := dropIndexes(b, db, "sessions", "session_seconds", "archives", "totals")
		for from := 0; from < c.sessions; from += c.perDay {
			for _, sql := range pastRows {
				exec(b, db, sql, c.args(from, min(from+c.perDay, c.sessions)-1)...)
			}
		}
		exec(b, db, pastTotals, c.args(0, c.sessions-1)...)
		rebuild()
		exec(b, db, `UPDATE users u SET streak_first_on = d.first_on, streak_last_on = d.last_on, longest_streak_days = 1 + d.last_on - d.first_on
			FROM (SELECT user_id, min(starts_on) AS first_on, max(starts_on) AS last_on FROM totals WHERE period = 'day' AND lang = ''
				GROUP BY user_id) d WHERE d.user_id = u.id`)
	}
	settle(b, db)
}

func (c crowd) args(first, last int) []any {
	return []any{c.users, noon, c.daysAgo, c.perDay, first, last}
}

// settle does what autovacuum would do soon, so that it does not do it while something is measured.
func settle(b *testing.B, db *pgxpool.Pool) {
	b.Helper()
	exec(b, db, `VACUUM (ANALYZE)`)
	exec(b, db, `CHECKPOINT`)
}

func exec(b *testing.B, db *pgxpool.Pool, sql string, args ...any) {
	b.Helper()
	_, err := db.Exec(b.Context(), sql, args...)
	require.NoError(b, err, "%s", sql)
}

// dropIndexes drops all indexes of tables and returns what makes them anew: far faster than to grow them row by row.
func dropIndexes(b *testing.B, db *pgxpool.Pool, tables ...string) (rebuild func()) {
	b.Helper()
	rows, err := db.Query(b.Context(), `
		SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
			format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
		FROM pg_constraint WHERE contype = 'p' AND conrelid::regclass::text = ANY ($1)
		UNION ALL
		SELECT format('DROP INDEX %I', indexname), indexdef FROM pg_indexes
		WHERE tablename = ANY ($1) AND NOT EXISTS (SELECT FROM pg_constraint WHERE conname = indexname)`, tables)
	require.NoError(b, err)
	type index struct{ Drop, Make string }
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	require.NoError(b, err)
	for _, x := range indexes {
		exec(b, db, x.Drop)
	}
	return func() {
		// Statements sent as one are one transaction: the setting ends with it.
		makes := []string{`SET LOCAL maintenance_work_mem = '512MB'`}
		for _, x := range indexes {
			makes = append(makes, x.Make)
		}
		exec(b, db, strings.Join(makes, ";\n"))
	}
}

// due makes batches of users due, other ones each time until all had their turn.
type due struct {
	first, users int // users first to first+users-1
	next, turns  int
}

// add gives n users an ended run of twenty events each and returns their numbers.
func (d *due) add(b *testing.B, db *pgxpool.Pool, n int) []int {
	b.Helper()
	ids := make([]int, 0, n)
	for range n {
		ids = append(ids, d.first+d.next)
		d.next = (d.next + 1) % d.users
	}
	// The next turn's run ends half an hour earlier, so that it becomes a session of its own.
	at := noon.Unix() - 3600 - int64(d.turns/d.users)*1800
	d.turns += n
	require.Less(b, d.turns/d.users, 40, "the runs would reach yesterday's sessions")
	exec(b, db, `INSERT INTO events (user_id, id, ts, lang, keystrokes, lines)
		SELECT `+uid+`, gen_random_uuid(), ($2::bigint - 30 * e) * 1000, 'go', 5, 1
		FROM unnest($1::int[]) i, generate_series(0, 19) e`, ids, at)
	exec(b, db, `INSERT INTO hot_runs (user_id, first_s, last_s) SELECT `+uid+`, $2::bigint - 570, $2::bigint FROM unnest($1::int[]) i`, ids, at)
	return slices.Clip(ids)
}

func count(b *testing.B, db *pgxpool.Pool, table string) (n int) {
	b.Helper()
	require.NoError(b, db.QueryRow(b.Context(), `SELECT count(*) FROM `+table).Scan(&n))
	return n
}
