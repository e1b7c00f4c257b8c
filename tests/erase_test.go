package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/views"
	"github.com/commma/commma/internal/writebehind"
)

// A user who is deleted leaves no row and no key. The tables are asked from the database itself and each must hold
// something of the user before, so a new one cannot be forgotten here.
func TestDeletedUserLeavesNothing(t *testing.T) {
	t.Parallel()
	s := &stack{t: t, database: testenv.PostgresURL(t), rdb: testenv.OwnRedis(t).URL()}
	base, _ := s.serve("--no-aggregate")
	user, other := s.createUser("going", "Europe/Berlin"), s.createUser("staying", "UTC")
	id := uuid.MustParse(user.ID)
	now := clock.System{}.Now()
	for _, u := range []createdUser{user, other} {
		upload(t, base, u, now.Add(-5*time.Hour), now.Add(-5*time.Hour+30*time.Minute), now.Add(-3*time.Hour))
	}
	s.workerOnce()
	// A bridge merges two sessions, so that there is an alias; then a session is deleted; and something stays hot.
	upload(t, base, user, now.Add(-5*time.Hour+15*time.Minute))
	s.workerOnce()
	_, list := call(t, "GET", base+"/v1/sessions?limit=1", user.Token, "")
	var page struct{ Sessions []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(list), &page))
	status, answer := call(t, "DELETE", base+"/v1/sessions/"+page.Sessions[0].ID, user.Token, "")
	require.Equal(t, 204, status, answer)
	engage(t, base, user, other)
	befriend(t, base, user, other)
	upload(t, base, user, now)
	status, answer = call(t, "POST", base+"/v1/ingest", user.Token, `{"events":[{"id":"no"}]}`)
	require.Equal(t, 202, status, answer)

	pool, err := store.Open(t.Context(), s.database, store.Options{})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	// The profile and a session are looked at: some of it is flushed, some gathers, and some is in a batch.
	_, list = call(t, "GET", base+"/v1/sessions?limit=1", user.Token, "")
	require.NoError(t, json.Unmarshal([]byte(list), &page))
	look := func(target, token string) {
		t.Helper()
		status, answer := call(t, "POST", base+"/v1/views", token, `{"target":"`+target+`"}`)
		require.Equal(t, 200, status, answer)
		require.JSONEq(t, `{"recorded":true}`, answer)
	}
	look("profile:going", other.Token)
	s.workerOnce()
	look("session:"+page.Sessions[0].ID, other.Token)
	for name, field := range map[string]string{views.Name: user.ID + ":profile:2026-01-01", lastseen.Name: user.ID} {
		k := writebehind.KeysOf(name, 0)
		require.NoError(t, rdb.HSet(t.Context(), k.Buf, field, 1).Err()) // a visit would wait for the end of its marker
		require.NoError(t, rdb.Rename(t.Context(), k.Buf, k.Proc).Err())
		require.NoError(t, rdb.HSet(t.Context(), k.Buf, field, 1).Err())
	}
	look("profile:going", "")
	for _, handle := range []string{"leaving", "going"} { // the first of them is kept for the user then
		status, answer = call(t, "PATCH", base+"/v1/me", user.Token, `{"handle":"`+handle+`"}`)
		require.Equal(t, 200, status, answer)
	}
	// What is done at last is still pending.
	for _, sql := range []string{
		`INSERT INTO recap_mails (week, user_id) VALUES ('2026-01-05', $1)`,
		`INSERT INTO finalize_failures VALUES ($1, 1, now(), 'test')`,
		`INSERT INTO counter_deltas (owner_id, session_id, kudos) SELECT $1, id, 0 FROM sessions WHERE user_id = $1 LIMIT 1`,
		`INSERT INTO outbox (user_id, version) VALUES ($1, 0) ON CONFLICT DO NOTHING`,
	} {
		_, err = pool.Exec(t.Context(), sql, id)
		require.NoError(t, err)
	}

	tables := userTables(t, pool)
	count := func(table, column string) int64 { return countOf(t, pool, table, column, id) }
	for _, c := range tables {
		require.Positive(t, count(c.Table, c.Column), "nothing of the user stands in %s.%s: put something there before the delete", c.Table, c.Column)
	}
	requireExported(t, base, pool, user, other, tables)
	require.NotEmpty(t, keysOf(t, rdb, user.ID))
	anywhere := newLeakScan(t, pool, user.ID, strings.ReplaceAll(user.ID, "-", ""), user.Handle)

	status, answer = call(t, "DELETE", base+"/v1/me", user.Token, "")
	require.Equal(t, 204, status, answer)
	for _, c := range tables {
		require.Zero(t, count(c.Table, c.Column), "table %s", c.Table)
	}
	places, err := anywhere.everybody(t.Context())
	require.NoError(t, err)
	require.Empty(t, places, "rows with the user's id or name in whatever column")
	require.Empty(t, keysOf(t, rdb, user.ID), "keys and values that hold the user")
	for _, path := range []string{"/v1/me", "/v1/sessions"} {
		status, _ = call(t, "GET", base+path, user.Token, "")
		require.Equal(t, 403, status, "the user of the token does not exist")
	}
	_, board := call(t, "GET", base+"/v1/leaderboard?period=alltime", "", "")
	require.NotContains(t, board, "going")
	require.Contains(t, board, "staying")
}

// requireExported checks that the user is given every row of theirs, from whatever table: a new one cannot be forgotten.
func requireExported(t *testing.T, base string, pool *pgxpool.Pool, user, other createdUser, tables []userTable) {
	t.Helper()
	status, text := call(t, "GET", base+"/v1/me/export", user.Token, "")
	require.Equal(t, 200, status, text)
	got, ended := map[string]int64{}, int64(-1)
	for line := range strings.Lines(text) {
		var l struct {
			Table string
			Row   map[string]any
			End   *struct{ Rows int64 }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		require.Equal(t, int64(-1), ended, "nothing comes after the end")
		switch {
		case l.End != nil:
			ended = l.End.Rows
		case l.Table != "":
			require.NotEmpty(t, l.Row, line)
			got[l.Table]++
		}
	}
	want := map[string]int64{}
	for _, c := range tables {
		want[c.Table] += countOf(t, pool, c.Table, c.Column, uuid.MustParse(user.ID))
	}
	delete(want, "archive_details") // what it holds stands with the events of archives, which are told one by one
	var sum int64
	for table, n := range want {
		if table == "archives" { // a row holds many events
			n = max(n, got[table])
		}
		require.Equal(t, n, got[table], "the export lacks rows of %s: have its package tell them", table)
		sum += n
	}
	require.Equal(t, sum, ended)
	require.Contains(t, text, `"file":"a.go"`, "in the archive")
	require.NotContains(t, text, other.ID, "ids of others are theirs")
	require.Contains(t, text, other.Handle)
	require.NotContains(t, text, "token_hash")
}

// userTable is a table that may hold something of a user, and the column that says whose it is.
type userTable struct{ Table, Column string }

// notUsers are the columns with ids that are no users'.
var notUsers = []userTable{
	{"archive_details", "session_id"}, {"archives", "session_id"}, {"comments", "id"}, {"comments", "session_id"},
	{"counter_deltas", "session_id"}, {"events", "id"}, {"flushes", "id"}, {"group_invitations", "group_id"},
	{"group_members", "group_id"}, {"groups", "id"}, {"kudos", "session_id"}, {"session_aliases", "heir"}, {"session_aliases", "id"}, {"session_counters", "session_id"}, {"session_details", "session_id"}, {"session_seconds", "session_id"},
	{"sessions", "id"},
}

// userTables asks the database itself, so that none is forgotten: a column with ids that is new must be told apart here.
func userTables(t *testing.T, pool *pgxpool.Pool) []userTable {
	t.Helper()
	all := rows[userTable](t, pool, `SELECT c.table_name::text, c.column_name::text
		FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.udt_name IN ('uuid', '_uuid') ORDER BY 1, 2`)
	for _, c := range notUsers {
		require.Contains(t, all, c, "a column that is no more")
	}
	tables := slices.DeleteFunc(all, func(c userTable) bool { return slices.Contains(notUsers, c) })
	for _, c := range tables {
		ofUser := slices.Contains([]string{"user_id", "owner_id", "author_id", "followee_id"}, c.Column) || c == userTable{"users", "id"}
		require.True(t, ofUser, "is %v of users, or does it belong to notUsers?", c)
	}
	return tables
}

func countOf(t *testing.T, pool *pgxpool.Pool, table, column string, user uuid.UUID) int64 {
	t.Helper()
	return rows[struct{ N int64 }](t, pool, fmt.Sprintf(`SELECT count(*) FROM %q WHERE %q = $1`, table, column), user)[0].N
}

// rowsOf counts the rows of a user in all tables but some.
func rowsOf(t *testing.T, pool *pgxpool.Pool, user uuid.UUID, except ...string) (n int64) {
	t.Helper()
	for _, c := range userTables(t, pool) {
		if !slices.Contains(except, c.Table) {
			n += countOf(t, pool, c.Table, c.Column, user)
		}
	}
	return n
}

// engage has two users give kudos to a session of each other and comment on it. What is pending for that stays pending for
// five seconds, or is planted.
func engage(t *testing.T, base string, a, b createdUser) {
	t.Helper()
	for _, pair := range [][2]createdUser{{a, b}, {b, a}} {
		_, list := call(t, "GET", base+"/v1/sessions?limit=1", pair[1].Token, "")
		var page struct{ Sessions []struct{ ID string } }
		require.NoError(t, json.Unmarshal([]byte(list), &page))
		require.NotEmpty(t, page.Sessions)
		path := base + "/v1/sessions/" + page.Sessions[0].ID
		for _, r := range [][3]string{{"PUT", "/kudos", ""}, {"POST", "/comments", `{"body":"hello"}`}, {"POST", "/shares", ""}} {
			status, answer := call(t, r[0], path+r[1], pair[0].Token, r[2])
			require.Less(t, status, 300, answer)
		}
	}
}

// befriend has two users follow each other, each own a group, and each invite the other into it.
func befriend(t *testing.T, base string, a, b createdUser) {
	t.Helper()
	for _, pair := range [][2]createdUser{{a, b}, {b, a}} {
		status, answer := call(t, "PUT", base+"/v1/users/"+pair[1].Handle+"/follow", pair[0].Token, "")
		require.Equal(t, 204, status, answer)
		status, answer = call(t, "POST", base+"/v1/groups", pair[0].Token, `{"name":"friends"}`)
		require.Equal(t, 201, status, answer)
		var group struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(answer), &group))
		status, answer = call(t, "PUT", base+"/v1/groups/"+group.ID+"/invitations/"+pair[1].Handle, pair[0].Token, "")
		require.Equal(t, 204, status, answer)
	}
}

// upload sends one event for each instant.
func upload(t *testing.T, base string, u createdUser, at ...time.Time) {
	t.Helper()
	var events []string
	for _, a := range at {
		events = append(events, fmt.Sprintf(`{"id":"%s","ts":%d,"lang":"go","file":"a.go","project":"p","keystrokes":5,"lines":1,"key_freq":{"a":5}}`,
			uuid.NewString(), a.UnixMilli()))
	}
	status, answer := call(t, "POST", base+"/v1/ingest", u.Token, `{"events":[`+strings.Join(events, ",")+`]}`)
	require.Equal(t, 202, status, answer)
}

// noExpiry is what PTTL says of a key without one; of a key that ended since it was listed it says -2.
const noExpiry = time.Duration(-1)

// keysOf lists where Redis holds users: in a key's name, or in a value. Not counted is what ends within a day by itself and
// says nothing but the id: counters of limits, and the fence's tombstones.
func keysOf(t *testing.T, rdb redis.UniversalClient, ids ...string) (found []string) {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		if strings.HasPrefix(key, "rate:") {
			require.NotEqual(t, noExpiry, rdb.PTTL(t.Context(), key).Val(), "%s never ends", key)
			continue
		}
		if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(key, id) }) {
			found = append(found, key)
			continue
		}
		if strings.HasPrefix(key, "wb:") { // users are in the names of fields
			fields := strings.Join(rdb.HKeys(t.Context(), key).Val(), " ")
			if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(fields, id) }) {
				found = append(found, key)
			}
			continue
		}
		if holds(t, rdb, key, ids) {
			found = append(found, key)
		}
	}
	return found
}

// holds says whether a key's value holds one of the users.
func holds(t *testing.T, rdb redis.UniversalClient, key string, ids []string) bool {
	t.Helper()
	if strings.HasPrefix(key, "wb:") { // the user is in a field's name
		fields := strings.Join(rdb.HKeys(t.Context(), key).Val(), " ")
		return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(fields, id) })
	}
	switch kind := rdb.Type(t.Context(), key).Val(); kind {
	case "zset":
		scores, err := rdb.ZMScore(t.Context(), key, ids...).Result()
		require.NoError(t, err)
		return slices.ContainsFunc(scores, func(score float64) bool { return score > 0 })
	case "hash":
		values, err := rdb.HMGet(t.Context(), key, ids...).Result()
		require.NoError(t, err)
		return slices.ContainsFunc(values, func(v any) bool {
			text, _ := v.(string)
			return strings.Trim(text, "0123456789\x00") != "" // a tombstone is a version and nothing else
		})
	case "string":
		text := rdb.Get(t.Context(), key).Val()
		return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(text, id) })
	case "none": // it ended meanwhile
		return false
	default:
		t.Fatalf("a key family of type %s that this test does not know: %s", kind, key)
		return false
	}
}

// keysThatStay are the keys that hold users, but for those with a user's name that end within a day: what a server that died,
// or was late, had cached.
func keysThatStay(t *testing.T, rdb redis.UniversalClient, ids ...string) (found []string) {
	t.Helper()
	for _, key := range keysOf(t, rdb, ids...) {
		named := slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(key, id) })
		ttl := rdb.PTTL(t.Context(), key).Val()
		if !named || ttl == -1 || ttl > 24*time.Hour {
			found = append(found, key)
		}
	}
	return found
}
