package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
)

// realDataDir names a folder of recorded activity (NAME.jsonl) with what another program made of it
// (NAME.expected.json). The data is people's, so it does not lie in the repository.
const realDataDir = "COMMMA_REALDATA_DIR"

// expected is what must come out, in seconds since the epoch and local days.
type expected struct {
	Zones map[string]string
	Users map[string]struct {
		Sessions      []expectedSession
		Days          map[string]map[string]int64
		Weeks, Months map[string]int64
		Total         int64
		StreakLongest int64 `json:"streak_longest"`
	}
	AllTime []expectedPlace
}

type expectedSession struct {
	Started, Ended, Duration int64
	Languages                map[string]int64
}

func (s *expectedSession) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&s.Started, &s.Ended, &s.Duration, &s.Languages})
}

type expectedPlace struct {
	User    string
	Seconds int64
}

func (p *expectedPlace) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&p.User, &p.Seconds})
}

// Real activity, uploaded shuffled and in random batches through the real program, must come out as a program of
// somebody else's says, to the second, in every user's zone, and every board must show the totals.
func TestRealActivity(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(realDataDir)
	if dir == "" {
		t.Skipf("%s is not set: it names a folder of recorded activity, which is not part of the repository", realDataDir)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.expected.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no *.expected.json in %s", dir)
	for _, file := range files {
		name := file[:len(file)-len(".expected.json")]
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			var want expected
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &want))
			checkRealActivity(t, name+".jsonl", want)
		})
	}
}

func checkRealActivity(t *testing.T, events string, want expected) {
	s := newStack(t)
	base, _ := s.serve("--no-aggregate", "--max-event-age=100000h", "--no-language-aliases", "--ingest-per-hour=0")
	ids, tokens := map[string]uuid.UUID{}, map[string]string{}
	for user, zone := range want.Zones {
		created := s.createUser(user, zone)
		ids[user], tokens[user] = uuid.MustParse(created.ID), created.Token
	}
	tokenFile := filepath.Join(t.TempDir(), "tokens.json")
	text, err := json.Marshal(tokens)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(tokenFile, text, 0o600))

	// The same events come in more than once, in other orders and batches, with a cycle in the middle.
	for seed := range 2 {
		s.run("replay", events, "--api", base, "--tokens", tokenFile, "--shuffle", fmt.Sprintf("--seed=%d", seed))
		stats := s.workerOnce()
		require.Zero(t, stats.Aggregate.Failed)
		require.Zero(t, stats.Publish.Left)
	}

	pool, err := store.Open(t.Context(), s.database, store.Options{})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for user, id := range ids {
		checkUser(t, pool, id, want, user)
	}
	checkBoards(t, s, pool, ids, want)
}

func rows[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	r, err := pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	out, err := pgx.CollectRows(r, pgx.RowToStructByPos[T])
	require.NoError(t, err)
	return out
}

func checkUser(t *testing.T, pool *pgxpool.Pool, id uuid.UUID, want expected, user string) {
	t.Helper()
	u := want.Users[user]
	sessions := rows[expectedSession](t, pool, `SELECT extract(epoch FROM started_at)::bigint, extract(epoch FROM ended_at)::bigint,
		extract(epoch FROM ended_at - started_at)::bigint,
		(SELECT jsonb_object_agg(l.lang, l.seconds) FROM (SELECT lang, sum(seconds) AS seconds FROM session_seconds ss
		 WHERE ss.session_id = s.id GROUP BY lang) l)
		FROM sessions s WHERE user_id = $1 ORDER BY started_at`, id)
	require.Equal(t, u.Sessions, sessions, "sessions of %s", user)

	type total struct {
		Period         string
		StartsOn, Lang string
		Seconds        int64
	}
	days, weeks, months := map[string]map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, r := range rows[total](t, pool, `SELECT period, starts_on::text, lang, seconds FROM totals WHERE user_id = $1`, id) {
		switch {
		case r.Period == "day" && r.Lang != "":
			if days[r.StartsOn] == nil {
				days[r.StartsOn] = map[string]int64{}
			}
			days[r.StartsOn][r.Lang] = r.Seconds
		case r.Period == "week" && r.Lang == "":
			weeks[r.StartsOn] = r.Seconds
		case r.Period == "month" && r.Lang == "":
			months[r.StartsOn] = r.Seconds
		case r.Period == "alltime" && r.Lang == "":
			require.Equal(t, u.Total, r.Seconds, "total of %s", user)
		}
	}
	require.Equal(t, u.Days, days, "days of %s", user)
	require.Equal(t, u.Weeks, weeks, "weeks of %s", user)
	require.Equal(t, u.Months, months, "months of %s", user)
	longest := rows[struct{ Days int64 }](t, pool, `SELECT longest_streak_days FROM users WHERE id = $1`, id)
	require.Equal(t, u.StreakLongest, longest[0].Days, "longest streak of %s", user)
}

// checkBoards compares every board that is kept, and some that are not, with the totals, through the reader of the API.
func checkBoards(t *testing.T, s *stack, pool *pgxpool.Pool, ids map[string]uuid.UUID, want expected) {
	t.Helper()
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	reader := leaderboard.NewReader(pool, rdb, leaderboard.ReaderConfig{
		MissingFunc: func(b leaderboard.Board) { t.Errorf("board %v is missing", b) },
	})
	type boardKey struct {
		Period   calendar.Period
		StartsOn calendar.Day
		Lang     string
	}
	type member struct {
		User    uuid.UUID
		Seconds int64
	}
	for _, k := range rows[boardKey](t, pool, `SELECT DISTINCT period, starts_on, lang FROM totals WHERE lang = '' OR period = 'alltime'`) {
		board := leaderboard.Board{Span: calendar.Span{Period: k.Period, StartsOn: k.StartsOn}, Lang: k.Lang}
		if k.Lang != "" && !isListed(k.Lang) {
			continue
		}
		truth := rows[member](t, pool, `SELECT user_id, seconds FROM totals WHERE period = $1 AND starts_on = $2 AND lang = $3
			ORDER BY seconds DESC, user_id DESC`, k.Period, k.StartsOn, k.Lang)
		page, err := reader.Page(t.Context(), clock.System{}.Now(), board, leaderboard.Query{Limit: leaderboard.MaxLimit})
		require.NoError(t, err)
		var got []member
		for _, e := range page.Entries {
			got = append(got, member{e.UserID, e.Seconds})
		}
		require.Equal(t, truth, got, "board %v", board)
	}
	page, err := reader.Page(t.Context(), clock.System{}.Now(), leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodAllTime}},
		leaderboard.Query{Limit: leaderboard.MaxLimit})
	require.NoError(t, err)
	for i, place := range want.AllTime {
		require.Equal(t, ids[place.User], page.Entries[i].UserID)
		require.Equal(t, place.Seconds, page.Entries[i].Seconds)
	}
}
