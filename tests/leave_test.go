package tests

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/testenv"
)

// How long a user with a long history may take to leave full, and anybody else's upload meanwhile, at full size.
const (
	leaveWithin  = 3 * time.Second
	changeWithin = 5 * time.Second // what a change has altogether
	besideWithin = time.Second
)

// history is what a user on full has, before leaving.
type history struct {
	sessions, events int
	pathBytes        int           // about; each event has its own path when they are long
	within           time.Duration // how long leaving may take
}

// histories are those at full size: a great many of everything; long paths just under a round number of events that was, or
// is, what a request finalizes.
func histories() []history {
	const long = 4000
	if scale() == 0 {
		return []history{{200, 2000, 40, leaveWithin}, {20, 1000, long, leaveWithin}}
	}
	return []history{{10_000, 100_000, 40, leaveWithin}, {200, 49_000, long, changeWithin}, {200, 9_900, long, leaveWithin}}
}

// A user with a long history, of long paths too, leaves full at once, to either mode, and nobody else's uploads wait for it.
// The times count only in `make trials`. At any scale each history is left for each mode at least once.
func TestTrialsLeaveFull(t *testing.T) {
	alone(t)
	all := histories()
	trials := 2 * len(all) * scaled(3, 1)
	results := newSuite(t, "leave full with a long history", trials)
	s := &stack{t: t, database: testenv.PostgresURL(t), rdb: testenv.RedisURL(t)}
	base, _ := s.serve("--no-aggregate", "--ingest-per-hour=0", "--writes-per-hour=0")
	pool := openPool(t, s.database)
	t.Cleanup(pool.Close)
	for i := range trials {
		mode, h := []string{"summary", "off"}[i%2], all[i/2%len(all)]
		user := s.createUser(fmt.Sprintf("leaver-%d", i), "UTC")
		seedHistory(t, pool, uuid.MustParse(user.ID), h)
		neighbour := s.createUser(fmt.Sprintf("neighbour-%d", i), "UTC")
		others := uploadAllTheTime(t, base, neighbour.Token)

		start := clock.System{}.Now()
		status, answer := call(t, http.MethodPatch, base+"/v1/me", user.Token, `{"privacy":"`+mode+`"}`)
		took := clock.System{}.Now().Sub(start)
		longest, refused := others()
		found := tally{Expected: 1, Errors: refused, Lost: pathsLeft(t, pool, user.ID)}
		if status == http.StatusOK {
			found.Found = 1
		} else {
			t.Log(status, answer)
			found.Errors++
		}
		if scale() > 0 {
			t.Logf("%+v, full to %s: %.2f s; longest upload of another user meanwhile: %.0f ms", h, mode, took.Seconds(), longest.Seconds()*1000)
			if took > h.within || longest > besideWithin {
				found.Errors++
			}
		}
		results.add(found)
	}
}

// seedHistory writes what a user on full has after years, and a day of hot events that is not over: a third of them in
// runs that have ended.
func seedHistory(t *testing.T, pool *pgxpool.Pool, user uuid.UUID, h history) {
	t.Helper()
	folder, files := "secret/", min(h.events, 100)
	for len(folder) < h.pathBytes { // hexadecimal digits in no order: they do not compress to nothing
		folder += strings.ReplaceAll(uuid.NewString(), "-", "") + "/"
	}
	if h.pathBytes > 1000 {
		files = h.events
	}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{`WITH made AS (
			INSERT INTO sessions (id, user_id, started_at, ended_at, zone, events, keystrokes, lines, top_lang, peak_cpm, peak_at)
			SELECT gen_random_uuid(), $1, d.at, d.at + interval '1 hour', 'UTC', 60, 60, 1, 'go', 1, d.at
			FROM (SELECT date_trunc('hour', now()) - (i + 30) * interval '2 hours' AS at FROM generate_series(1, $2::int) i) d
			RETURNING id, ended_at
		), files AS (
			SELECT jsonb_agg(jsonb_build_object('path', $3::text || f || '.go', 'changes', f)) AS list
			FROM generate_series(1, 100) f
		), details AS (
			INSERT INTO session_details SELECT $1, m.id, f.list, '{"a":60}' FROM made m, files f
		), archived AS (
			INSERT INTO archives (user_id, session_id, chunk, events, ended_s)
			SELECT $1, m.id, 0, decode(repeat('00', 1500), 'hex'), extract(epoch FROM m.ended_at)::bigint FROM made m
		)
		INSERT INTO archive_details (user_id, session_id, chunk, details)
		SELECT $1, m.id, 0, convert_to(f.list::text, 'UTF8') FROM made m, files f`, []any{h.sessions, folder}},
		{`INSERT INTO totals (user_id, period, starts_on, lang, seconds)
		SELECT $1, 'day', current_date - i, l, 3600 FROM generate_series(0, $2::int / 12) i, unnest(ARRAY['', 'go']) l`, []any{h.sessions}},
		{`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, project, file, key_freq)
		SELECT $1, gen_random_uuid(), (floor(extract(epoch FROM now())) - 1 - CASE WHEN i % 3 = 0 THEN 50000 ELSE 0 END - i % 3600) * 1000,
			'go', 1, 0, 'secret', $3::text || i % $4::int || '.go', '{"a":1}' FROM generate_series(1, $2::int) i`, []any{h.events, folder, files}},
	} {
		_, err := pool.Exec(t.Context(), step.sql, append([]any{user}, step.args...)...)
		require.NoError(t, err)
	}
	_, err := pool.Exec(t.Context(), `INSERT INTO hot_runs (user_id, first_s, last_s)
		SELECT $1, min(ts) / 1000, max(ts) / 1000 FROM events WHERE user_id = $1 GROUP BY ts / 1000 / 10000`, user)
	require.NoError(t, err)
}

// pathsLeft counts rows of a user that hold a path, a project or key counts.
func pathsLeft(t *testing.T, pool *pgxpool.Pool, user string) (n int64) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM events WHERE user_id = $1 AND (file IS NOT NULL OR project IS NOT NULL OR key_freq IS NOT NULL))
		+ (SELECT count(*) FROM session_details WHERE user_id = $1) + (SELECT count(*) FROM archive_details WHERE user_id = $1)`,
		user).Scan(&n))
	return n
}

// uploadAllTheTime uploads one event after the other for a user, until the function that it returns is called: that says
// how long the longest took, and how many were not stored. It returns once the first was stored.
func uploadAllTheTime(t *testing.T, base, token string) (stop func() (longest time.Duration, refused int64)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	first, done := make(chan struct{}), make(chan struct{})
	var longest time.Duration
	var refused int64
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			start := clock.System{}.Now()
			stored := uploadOne(context.WithoutCancel(ctx), base, token, start)
			if n == 0 {
				close(first)
			} else {
				longest = max(longest, clock.System{}.Now().Sub(start))
			}
			if !stored {
				refused++
			}
			if ctx.Err() != nil {
				return
			}
		}
	}()
	<-first
	return func() (time.Duration, int64) {
		cancel()
		<-done
		return longest, refused
	}
}

func uploadOne(ctx context.Context, base, token string, at time.Time) bool {
	body := fmt.Sprintf(`{"events":[{"id":%q,"ts":%d,"keystrokes":1,"lines":0,"file":"a.go"}]}`, uuid.New(), at.UnixMilli())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/ingest", strings.NewReader(body))
	if err != nil {
		return false
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusAccepted
}
