package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/testenv"
)

// Every number of a user is the same wherever it is read, on the server as it is wired; and today is ahead by what is open.
func TestNumbersOfAUser(t *testing.T) {
	t.Parallel()
	r := setupReal(t, testenv.Postgres(t), testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	ada := r.mustUser(t, "ada")
	r.work(t, ada, time.Hour, 26*time.Hour) // each is a session of its own, on two days in Berlin
	body := fmt.Sprintf(`{"events":[{"id":%q,"ts":%d,"lang":"go","keystrokes":1,"lines":0}]}`, uuid.New(), testNow.Add(-50*time.Minute).UnixMilli())
	require.Equal(t, http.StatusAccepted, r.call(t, http.MethodPost, "/v1/ingest", body, bearer(ada)).status)

	got := r.call(t, http.MethodGet, "/v1/me/today", "", bearer(ada))
	require.JSONEq(t, `{"date":"2026-06-17","timezone":"Europe/Berlin","duration_s":660,"finalized_s":60,"partial":false}`, got.body,
		"the open event extends the session of ten minutes before")
	require.Equal(t, "private, no-cache", got.header.Get("Cache-Control"))

	got = r.call(t, http.MethodGet, "/v1/heatmap?handle=ada&from=2026-06-15&to=2026-06-17", "")
	require.JSONEq(t, `{"handle":"ada","from":"2026-06-15","to":"2026-06-17","duration_s":120,"streak":{"current_days":2,"longest_days":2},"days":[
		{"date":"2026-06-15","duration_s":0},{"date":"2026-06-16","duration_s":60},{"date":"2026-06-17","duration_s":60}]}`, got.body)
	got = r.call(t, http.MethodGet, "/v1/users/ada", "")
	require.Equal(t, map[string]any{"total_sessions": 2.0, "total_duration_s": 120.0, "top_lang": "Go"}, got.json(t)["stats"])
	got = r.call(t, http.MethodGet, "/v1/users/ada/sessions?limit=1", "")
	require.Len(t, got.json(t)["sessions"], 1)
	cursor, _ := got.json(t)["next_cursor"].(string)
	got = r.call(t, http.MethodGet, "/v1/users/ada/sessions?cursor="+cursor, "")
	require.Len(t, got.json(t)["sessions"], 1)
	require.Nil(t, got.json(t)["next_cursor"])
	r.call(t, http.MethodGet, "/v1/users/ada/sessions?cursor=x", "").requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
	r.call(t, http.MethodGet, "/v1/users/nobody/sessions", "").requireError(t, http.StatusNotFound, api.ErrorCodeNotFound)
	r.call(t, http.MethodGet, "/v1/heatmap?from=2026-06-17&to=2026-06-16", "", bearer(ada)).
		requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)

	got = r.call(t, http.MethodGet, "/v1/me/export", "", bearer(ada))
	require.True(t, strings.HasPrefix(got.body, `{"export":`), got.body)
	require.Contains(t, got.body, `{"end":{"rows":`)
	require.Equal(t, 2, strings.Count(got.body, `{"table":"sessions",`), got.body)
}

// A user has one name at a time, on boards as well, and the one before leads nowhere and is nobody else's.
func TestANewHandle(t *testing.T) {
	t.Parallel()
	r := setupReal(t, testenv.Postgres(t), testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	ada, other := r.mustUser(t, "ada"), r.mustUser(t, "other")
	r.work(t, ada, time.Hour)
	board := func() string { return r.call(t, http.MethodGet, "/v1/leaderboard?period=alltime", "").body }
	require.Contains(t, board(), `"ada"`)
	got := r.call(t, http.MethodPatch, "/v1/me", `{"handle":"lovelace"}`, bearer(ada))
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "lovelace", got.json(t)["handle"])
	require.Contains(t, board(), `"lovelace"`)
	require.NotContains(t, board(), `"ada"`)
	require.Equal(t, http.StatusOK, r.call(t, http.MethodGet, "/v1/users/lovelace", "").status)
	r.call(t, http.MethodGet, "/v1/users/ada", "").requireError(t, http.StatusNotFound, api.ErrorCodeNotFound)
	for _, taken := range []string{"ada", "lovelace"} {
		e := r.call(t, http.MethodPatch, "/v1/me", `{"handle":"`+taken+`"}`, bearer(other)).requireError(t, http.StatusConflict, api.ErrorCodeConflict)
		require.Equal(t, api.ErrorDetailCodeHandleTaken, e.Details[0].Code)
	}
	require.Equal(t, http.StatusOK, r.call(t, http.MethodPatch, "/v1/me", `{"handle":"ada"}`, bearer(ada)).status)
}
