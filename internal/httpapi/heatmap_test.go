package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/profile"
)

func TestHeatmapParameters(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]*profile.Days{
		"":                nil,
		"year=&from=&to=": nil,
		"year=2024":       {From: calendar.Date(2024, 1, 1), To: calendar.Date(2024, 12, 31)},
		"from=1970-01-01&to=2026-06-15&handle=ada": {From: 0, To: calendar.Date(2026, 6, 15)},
	} {
		var asked *profile.Days
		b := setup(t, &fake{heatmap: func(_ string, days *profile.Days) (profile.Heatmap, error) {
			asked = days
			return profile.Heatmap{User: profile.User{Handle: "ada"}}, nil
		}})
		got := b.call(t, http.MethodGet, "/v1/heatmap?"+query, "", signedIn())
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, want, asked, query)
		require.Contains(t, got.body, `"days":[]`)
	}
	for query, field := range map[string]string{
		"year=2024&from=2024-01-01":     "year",
		"year=1969":                     "year",
		"year=MMXXIV":                   "year",
		"year=99999":                    "year",
		"from=2026-06-14":               "to",
		"to=2026-06-14":                 "from",
		"from=2026-06-14&to=2026-06-1":  "to",
		"from=1969-12-31&to=1970-01-01": "from",
	} {
		e := setup(t, &fake{}).call(t, http.MethodGet, "/v1/heatmap?"+query, "", signedIn()).
			requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
		require.Equal(t, []string{field}, e.Details[0].Path, query)
	}
	setup(t, &fake{heatmap: func(string, *profile.Days) (profile.Heatmap, error) { return profile.Heatmap{}, profile.ErrBadDays }}).
		call(t, http.MethodGet, "/v1/heatmap?handle=ada", "").requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
	setup(t, &fake{}).call(t, http.MethodGet, "/v1/heatmap", "").requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
	got := setup(t, &fake{}).call(t, http.MethodGet, "/v1/heatmap?handle=demo", "")
	require.Equal(t, "public, no-cache", got.header.Get("Cache-Control"))
	require.JSONEq(t, `{"handle":"demo","from":"1970-01-02","to":"1970-01-03","duration_s":60,"streak":{"current_days":0,"longest_days":0},
		"days":[{"date":"1970-01-02","duration_s":60},{"date":"1970-01-03","duration_s":0}]}`, got.body)
}

func TestTodayAnswer(t *testing.T) {
	t.Parallel()
	got := setup(t, &fake{}).call(t, http.MethodGet, "/v1/me/today", "", signedIn())
	require.JSONEq(t, `{"date":"2026-06-17","timezone":"UTC","duration_s":120,"finalized_s":60,"partial":false}`, got.body)
	setup(t, &fake{today: aggregate.ErrUnknownUser}).call(t, http.MethodGet, "/v1/me/today", "", signedIn()).
		requireError(t, http.StatusForbidden, api.ErrorCodeForbidden)
}

func TestHandleConflicts(t *testing.T) {
	t.Parallel()
	for err, code := range map[error]api.ErrorDetailCode{
		account.ErrHandleTaken:   api.ErrorDetailCodeHandleTaken,
		account.ErrHandleChanges: api.ErrorDetailCodeHandleChanges,
	} {
		b := setup(t, &fake{change: func(account.Change) error { return err }})
		e := b.call(t, http.MethodPatch, "/v1/me", `{"handle":"ada"}`, signedIn()).requireError(t, http.StatusConflict, api.ErrorCodeConflict)
		require.Equal(t, code, e.Details[0].Code)
		require.Equal(t, []string{"handle"}, e.Details[0].Path)
	}
}

func TestExportAnswer(t *testing.T) {
	t.Parallel()
	got := setup(t, &fake{}).call(t, http.MethodGet, "/v1/me/export", "", signedIn())
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/x-ndjson", got.header.Get("Content-Type"))
	require.Equal(t, "private, no-cache", got.header.Get("Cache-Control"))
	require.Equal(t, "{}\n", got.body)

	setup(t, &fake{export: func(context.Context, io.Writer) error { return export.ErrBusy }}).
		call(t, http.MethodGet, "/v1/me/export", "", signedIn()).
		requireError(t, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable)
}

// A stream may take longer than other requests; one that fails midway must not look as if it were whole.
func TestStreamsAreBoundedByThemselvesAndCut(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	b := setupWith(t, &fake{export: func(ctx context.Context, w io.Writer) error {
		for range 3 {
			if _, err := io.WriteString(w, "{}\n"); err != nil {
				return err
			}
		}
		if cut.Load() {
			return errors.New("planted")
		}
		if clock.Left(ctx, 2*time.Hour) < 30*time.Minute {
			return errors.New("it has no more time than other requests")
		}
		return nil
	}}, Config{RequestTimeout: time.Minute, StreamTimeout: time.Hour})
	web := httptest.NewServer(b.Server)
	t.Cleanup(web.Close)
	read := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/v1/me/export", nil)
		require.NoError(t, err)
		signedIn()(req)
		res, err := web.Client().Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		require.Equal(t, http.StatusOK, res.StatusCode)
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	body, err := read()
	require.NoError(t, err)
	require.Equal(t, "{}\n{}\n{}\n", body)
	cut.Store(true)
	_, err = read()
	require.Error(t, err, "the connection is cut")
	require.Contains(t, b.logs.String(), "stream was cut short")
}

// What a stream waits for may hang: then it is answered in the time of any other request.
func TestStreamThatHangsIsAnswered(t *testing.T) {
	t.Parallel()
	b := setupWith(t, &fake{export: func(ctx context.Context, _ io.Writer) error {
		<-ctx.Done()
		return ctx.Err()
	}}, Config{RequestTimeout: 50 * time.Millisecond, StreamTimeout: time.Hour})
	b.call(t, http.MethodGet, "/v1/me/export", "", signedIn()).requireError(t, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable)
}
