package tests

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// leakScan counts the rows of a user that hold a mark, or what only full keeps. It asks the database which tables there
// are and reads whole rows, so that neither a new table nor a new column can be forgotten.
type leakScan struct {
	pool *pgxpool.Pool
	one  string // of the user $1
	all  string
}

// detailRows are those that must not be there at all, whatever is in them.
const detailRows = `
	SELECT 'events with details' AS place, count(*) AS n FROM events WHERE user_id = $1 AND num_nonnulls(project, file, key_freq) > 0
	UNION ALL SELECT 'session details', count(*) FROM session_details WHERE user_id = $1
	UNION ALL SELECT 'archive details', count(*) FROM archive_details WHERE user_id = $1`

func newLeakScan(t *testing.T, pool *pgxpool.Pool, marks ...string) *leakScan {
	t.Helper()
	tables := rows[struct{ Table, Owner string }](t, pool, `
		SELECT t.table_name::text, coalesce(max(c.column_name::text) FILTER (WHERE c.column_name = 'user_id'
			OR c.column_name = 'id' AND t.table_name = 'users'), '')
		FROM information_schema.tables t JOIN information_schema.columns c USING (table_schema, table_name)
		WHERE t.table_schema = 'public' AND t.table_type = 'BASE TABLE' GROUP BY 1 ORDER BY 1`)
	require.Greater(t, len(tables), 10)
	var has []string
	for _, m := range marks {
		// Bytes are shown as hexadecimal digits.
		has = append(has, fmt.Sprintf("x::text LIKE '%%%s%%' OR x::text LIKE '%%%s%%'", m, hex.EncodeToString([]byte(m))))
	}
	held := strings.Join(has, " OR ")
	one, all := []string{detailRows}, []string(nil)
	for _, table := range tables {
		all = append(all, fmt.Sprintf("SELECT '%s' AS place, count(*) AS n FROM %q x WHERE %s", table.Table, table.Table, held))
		if table.Owner != "" {
			one = append(one, fmt.Sprintf("SELECT '%s', count(*) FROM %q x WHERE x.%q = $1 AND (%s)", table.Table, table.Table, table.Owner, held))
		}
	}
	require.Greater(t, len(one), 10)
	return &leakScan{
		pool: pool,
		one:  "SELECT place, n FROM (" + strings.Join(one, " UNION ALL ") + ") found WHERE n > 0",
		all:  "SELECT place, n FROM (" + strings.Join(all, " UNION ALL ") + ") found WHERE n > 0",
	}
}

// place is a table, or a kind of row, with a number of rows in it.
type place struct {
	Place string
	N     int64
}

func (s *leakScan) user(ctx context.Context, id uuid.UUID) (places []place, err error) {
	return collect[place](ctx, s.pool, s.one, id)
}

func (s *leakScan) everybody(ctx context.Context) (places []place, err error) {
	return collect[place](ctx, s.pool, s.all)
}

func sumOf(places []place) (n int64) {
	for _, p := range places {
		n += p.N
	}
	return n
}

// redisText is all that a Redis holds: names of keys and their values.
func redisText(t *testing.T, rdb redis.UniversalClient) string {
	t.Helper()
	var b strings.Builder
	ctx := t.Context()
	for keys := rdb.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); {
		key := keys.Val()
		fmt.Fprintln(&b, key)
		var value any
		switch kind := rdb.Type(ctx, key).Val(); kind {
		case "string":
			value = rdb.Get(ctx, key).Val()
		case "hash":
			value = rdb.HGetAll(ctx, key).Val()
		case "zset":
			value = rdb.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "set":
			value = rdb.SMembers(ctx, key).Val()
		case "list":
			value = rdb.LRange(ctx, key, 0, -1).Val()
		case "stream":
			value = rdb.XRange(ctx, key, "-", "+").Val()
		case "none": // it ended meanwhile
		default:
			t.Errorf("a key of type %s that this test cannot read", kind)
		}
		fmt.Fprintln(&b, value)
	}
	return b.String()
}
