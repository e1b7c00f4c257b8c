package httpapi

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/views"
)

func TestViewTargets(t *testing.T) {
	t.Parallel()
	session := uuid.New()
	var seen []views.Target
	b := setup(t, &fake{record: func(_ views.Viewer, target views.Target) bool {
		seen = append(seen, target)
		return false
	}})
	got := b.call(t, http.MethodPost, "/v1/views", `{"target":"profile:ada","more":1}`)
	require.JSONEq(t, `{"recorded":false}`, got.body)
	require.Equal(t, "private, no-cache", got.header.Get("Cache-Control"))
	b.call(t, http.MethodPost, "/v1/views", `{"target":"session:`+session.String()+`"}`)
	require.Equal(t, []views.Target{{Owner: testUser}, {Owner: testUser, Session: session}}, seen)
	b.call(t, http.MethodPost, "/v1/views", `{"target":"session:nonsense"}`).requireError(t, http.StatusNotFound, api.ErrorCodeNotFound)
	for _, body := range []string{``, `null`, `[]`, `{}`, `{"target":null}`, `{"target":1}`, `{"target":""}`, `{"target":"ada"}`, `{"target":"user:ada"}`} {
		b.call(t, http.MethodPost, "/v1/views", body).requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
	}
	b.call(t, http.MethodPost, "/v1/views", strings.Repeat(" ", maxViewBytes+1)).
		requireError(t, http.StatusRequestEntityTooLarge, api.ErrorCodePayloadTooLarge)
}

// A panic beside the handler is answered like one in it, and does not end the process.
func TestAPanicWhileAViewIsCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{record: func(views.Viewer, views.Target) bool { panic("x") }})
	b.call(t, http.MethodGet, "/v1/users/ada", "").requireError(t, http.StatusInternalServerError, api.ErrorCodeInternalError)
}

// mustSession plants a finalized session of a user, with its counters.
func mustSession(t *testing.T, pool *pgxpool.Pool, owner uuid.UUID) (id uuid.UUID) {
	t.Helper()
	id = uuid.New()
	for _, sql := range []string{
		`INSERT INTO sessions (id, user_id, started_at, ended_at, zone, events, keystrokes, lines, top_lang, peak_cpm, peak_at)
		 VALUES ($2, $1, '2026-06-17T08:00:00Z', '2026-06-17T09:00:00Z', 'UTC', 1, 60, 1, 'go', 1, '2026-06-17T08:00:00Z')`,
		`INSERT INTO session_counters (user_id, session_id) VALUES ($1, $2)`,
		`INSERT INTO session_details (user_id, session_id, files) VALUES ($1, $2, '[{"path":"secret","changes":1}]')`,
	} {
		_, err := pool.Exec(t.Context(), sql, owner, id)
		require.NoError(t, err)
	}
	return id
}

func recorded(r reply) string { return r.header.Get(headerRecorded) }

func TestViewsFromThePageToItsOwner(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	r := setupReal(t, pool, testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	ada, bob := r.mustUser(t, "ada"), r.mustUser(t, "bob")
	session := mustSession(t, pool, ada.ID)
	_, err := pool.Exec(t.Context(), `INSERT INTO totals VALUES ($1, 'alltime', '1970-01-01', '', 3600), ($1, 'alltime', '1970-01-01', 'go', 3600)`, ada.ID)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE users SET session_count = 1 WHERE id = $1`, ada.ID)
	require.NoError(t, err)

	profile, page := "/v1/users/ada", "/v1/sessions/"+session.String()
	require.Empty(t, recorded(r.call(t, http.MethodGet, profile, "", bearer(ada))), "the owner's own looks are no views")
	require.JSONEq(t, `{"recorded":false}`, r.call(t, http.MethodPost, "/v1/views", `{"target":"profile:ada"}`, bearer(ada)).body)
	require.Equal(t, "true", recorded(r.call(t, http.MethodGet, profile, "", bearer(bob))))
	require.Equal(t, "false", recorded(r.call(t, http.MethodGet, profile, "", bearer(bob))), "once in an hour")
	require.JSONEq(t, `{"recorded":false}`, r.call(t, http.MethodPost, "/v1/views", `{"target":"profile:ada"}`, bearer(bob)).body)
	require.Equal(t, "true", recorded(r.call(t, http.MethodGet, profile, "")), "somebody without a token")
	require.Equal(t, "true", recorded(r.call(t, http.MethodGet, profile, "", withHeader("User-Agent", "other"))))
	require.Equal(t, "false", recorded(r.call(t, http.MethodGet, profile, "")))
	require.Equal(t, "true", recorded(r.call(t, http.MethodGet, page, "", bearer(bob))))
	require.Empty(t, recorded(r.call(t, http.MethodGet, page, "", bearer(ada))))
	require.JSONEq(t, `{"recorded":true}`, r.call(t, http.MethodPost, "/v1/views", `{"target":"session:`+session.String()+`"}`).body)

	r.now.Advance(time.Hour) // into the next clock hour
	require.Equal(t, "true", recorded(r.call(t, http.MethodGet, profile, "", bearer(bob))))
	_, err = r.Flusher.Flush(t.Context())
	require.NoError(t, err)
	_, err = r.Flusher.Flush(t.Context())
	require.NoError(t, err)

	shown := r.call(t, http.MethodGet, profile, "", bearer(ada)).json(t)
	require.EqualValues(t, 4, shown["views"])
	require.Equal(t, map[string]any{"total_sessions": 1.0, "total_duration_s": 3600.0, "top_lang": "Go"}, shown["stats"])
	require.Equal(t, api.Instant(testNow).String(), shown["last_seen_at"], "its owner was there an hour ago, and the marker still stands")
	require.EqualValues(t, 2, r.call(t, http.MethodGet, page, "").json(t)["views"])
	require.JSONEq(t, `{"days":[{"date":"2026-06-16","profile":0,"sessions":0},{"date":"2026-06-17","profile":4,"sessions":2}]}`,
		r.call(t, http.MethodGet, "/v1/me/views?days=2", "", bearer(ada)).body)
	require.Len(t, r.call(t, http.MethodGet, "/v1/me/views?days=9999", "", bearer(ada)).json(t)["days"], views.MaxDays)
}

// Of a user on off nobody learns anything, and nothing of theirs is counted or kept.
func TestPagesOfAUserOnOff(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	r := setupReal(t, pool, testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	ada, bob := r.mustUser(t, "ada"), r.mustUser(t, "bob")
	session := mustSession(t, pool, ada.ID)
	require.Equal(t, "true", recorded(r.call(t, http.MethodGet, "/v1/users/ada", "", bearer(bob))))
	r.call(t, http.MethodGet, "/v1/me", "", bearer(ada))
	off := activity.ModeOff
	require.NoError(t, r.Accounts.Change(t.Context(), ada.ID, account.Change{Mode: &off}))
	for _, o := range [][]option{nil, {bearer(bob)}} {
		for _, path := range []string{"/v1/users/ada", "/v1/users/nobody", "/v1/users/-", "/v1/sessions/" + session.String()} {
			r.call(t, http.MethodGet, path, "", o...).requireError(t, http.StatusNotFound, api.ErrorCodeNotFound)
		}
		for _, target := range []string{"profile:ada", "profile:nobody", "profile:", "session:" + session.String()} {
			r.call(t, http.MethodPost, "/v1/views", `{"target":"`+target+`"}`, o...).requireError(t, http.StatusNotFound, api.ErrorCodeNotFound)
		}
	}
	got := r.call(t, http.MethodGet, "/v1/users/ada", "", bearer(ada))
	require.Equal(t, http.StatusOK, got.status)
	require.Nil(t, got.json(t)["last_seen_at"])
	_, err := r.Flusher.Flush(t.Context())
	require.NoError(t, err)
	var kept int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM user_counters WHERE user_id = $1 AND (views > 0 OR last_seen_at IS NOT NULL)`,
		ada.ID).Scan(&kept))
	require.Zero(t, kept)
}

// With Redis down, hung or full a page is answered in time, and says that the look did not count.
func TestViewsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	pool := testenv.Postgres(t)
	r := setupReal(t, pool, server.URL(), admission.DefaultConfig(), Config{})
	r.mustUser(t, "ada")
	bob := r.mustUser(t, "bob")
	look := func() {
		t.Helper()
		start := clock.System{}.Now()
		got := r.call(t, http.MethodGet, "/v1/users/ada", "", bearer(bob))
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, "false", recorded(got))
		got = r.call(t, http.MethodPost, "/v1/views", `{"target":"profile:ada"}`, bearer(bob))
		require.JSONEq(t, `{"recorded":false}`, got.body)
		require.Less(t, clock.System{}.Now().Sub(start), 3*time.Second)
	}
	rdb, err := redisconn.Open(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	look()
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	look()
	require.NoError(t, server.Signal(syscall.SIGCONT))
	require.NoError(t, server.Kill(t.Context()))
	look()
}
