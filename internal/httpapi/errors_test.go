package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/sessions"
)

func TestErrorsOfDomains(t *testing.T) {
	t.Parallel()
	limited := &admission.Error{Code: admission.CodeRateLimited, Message: "slow down", Limit: admission.LimitState{
		Limit: 1000, ResetAt: testNow, RetryAfter: 3 * time.Second, Limited: true,
	}}
	for name, tc := range map[string]struct {
		err        error
		status     int
		code       api.ErrorCode
		retryAfter string
		logged     bool
	}{
		"unauthorized":     {&admission.Error{Code: admission.CodeUnauthorized, Message: "no"}, 401, api.ErrorCodeUnauthorized, "", false},
		"unknown user":     {&admission.Error{Code: admission.CodeForbidden, Message: "no"}, 403, api.ErrorCodeForbidden, "", false},
		"rate limited":     {limited, 429, api.ErrorCodeRateLimited, "3", false},
		"not admitted":     {&admission.Error{Code: admission.CodeUnavailable, Message: "no"}, 503, api.ErrorCodeServiceUnavailable, "5", true},
		"new refusal":      {&admission.Error{Code: "TEAPOT", Message: "no"}, 500, api.ErrorCodeInternalError, "", true},
		"not found":        {sessions.ErrNotFound, 404, api.ErrorCodeNotFound, "", false},
		"session cursor":   {sessions.ErrBadCursor, 400, api.ErrorCodeValidationError, "", false},
		"board cursor":     {leaderboard.ErrBadCursor, 400, api.ErrorCodeValidationError, "", false},
		"boards busy":      {fmt.Errorf("read board: %w", leaderboard.ErrBusy), 503, api.ErrorCodeServiceUnavailable, "5", false},
		"recaps busy":      {fmt.Errorf("read recap: %w", recap.ErrBusy), 503, api.ErrorCodeServiceUnavailable, "5", false},
		"body too large":   {ingest.ErrBodyTooLarge, 413, api.ErrorCodePayloadTooLarge, "", false},
		"too many events":  {ingest.ErrTooManyEvents, 413, api.ErrorCodePayloadTooLarge, "", false},
		"bad batch":        {&ingest.BadRequestError{Message: "no"}, 400, api.ErrorCodeValidationError, "", false},
		"user gone":        {ingest.ErrUnknownUser, 403, api.ErrorCodeForbidden, "", false},
		"overloaded":       {ingest.ErrOverloaded, 503, api.ErrorCodeServiceUnavailable, "5", false},
		"user busy":        {ingest.ErrUserBusy, 503, api.ErrorCodeServiceUnavailable, "5", false},
		"stopped":          {ingest.ErrStopped, 503, api.ErrorCodeServiceUnavailable, "5", false},
		"account busy":     {account.ErrBusy, 503, api.ErrorCodeServiceUnavailable, "5", false},
		"not shown yet":    {fmt.Errorf("publish user: %w", account.ErrNotShown), 503, api.ErrorCodeServiceUnavailable, "5", false},
		"account gone":     {account.ErrUnknownUser, 403, api.ErrorCodeForbidden, "", false},
		"handle taken":     {account.ErrHandleTaken, 409, api.ErrorCodeConflict, "", false},
		"bad zone":         {&account.InvalidError{Field: "timezone", Message: "no"}, 400, api.ErrorCodeValidationError, "", false},
		"body misframed":   {errMisframed, 400, api.ErrorCodeValidationError, "", false},
		"body stuck":       {errBodyNotRead, 503, api.ErrorCodeServiceUnavailable, "5", false},
		"body over bound":  {&http.MaxBytesError{Limit: 1}, 413, api.ErrorCodePayloadTooLarge, "", false},
		"no route":         {echo.ErrNotFound, 404, api.ErrorCodeNotFound, "", false},
		"wrong method":     {echo.ErrMethodNotAllowed, 404, api.ErrorCodeNotFound, "", false},
		"binding":          {echo.NewHTTPError(400, "Invalid format"), 400, api.ErrorCodeValidationError, "", false},
		"echo failed":      {echo.ErrInternalServerError, 500, api.ErrorCodeInternalError, "", true},
		"Postgres away":    {&net.OpError{Op: "dial", Err: errors.New("refused")}, 503, api.ErrorCodeServiceUnavailable, "5", true},
		"Postgres stopped": {&pgconn.PgError{Code: "57P01"}, 503, api.ErrorCodeServiceUnavailable, "5", true},
		"too late":         {context.DeadlineExceeded, 503, api.ErrorCodeServiceUnavailable, "5", true},
		"Postgres refuses": {&pgconn.PgError{Code: "22021"}, 500, api.ErrorCodeInternalError, "", true},
		"bug":              {errors.New("boom"), 500, api.ErrorCodeInternalError, "", true},
	} {
		for wrapped, err := range map[string]error{"": tc.err, " wrapped": fmt.Errorf("do it: %w", tc.err)} {
			t.Run(name+wrapped, func(t *testing.T) {
				t.Parallel()
				b := setup(t, &fake{})
				b.echo.GET("/fail", func(echo.Context) error { return err })
				b.routes["/fail"] = true
				got := b.call(t, http.MethodGet, "/fail", "")
				e := got.requireError(t, tc.status, tc.code)
				require.Equal(t, tc.retryAfter, got.header.Get("Retry-After"))
				if tc.logged {
					require.Contains(t, b.logs.String(), `"msg":"request failed"`)
					require.Contains(t, b.logs.String(), got.header.Get("X-Request-Id"))
				} else {
					require.NotContains(t, b.logs.String(), `"msg":"request failed"`)
				}
				if tc.status == 500 {
					require.Equal(t, "internal error, request "+got.header.Get("X-Request-Id"), e.Message)
				}
			})
		}
	}
}

func TestRateLimitedAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{admit: func(admission.Request) (admission.Grant, error) {
		return admission.Grant{}, &admission.Error{Code: admission.CodeRateLimited, Message: "slow down", Limit: admission.LimitState{
			Limit: 1000, Remaining: 0, ResetAt: time.Unix(1_781_515_800, 0), RetryAfter: 2500 * time.Millisecond, Limited: true,
		}}
	}})
	got := b.call(t, http.MethodPost, "/v1/ingest", "never read", signedIn())
	got.requireError(t, http.StatusTooManyRequests, api.ErrorCodeRateLimited)
	require.Equal(t, "3", got.header.Get("Retry-After"), "rounded up: who obeys is let through")
	require.Equal(t, "1000", got.header.Get("X-RateLimit-Limit"))
	require.Equal(t, "0", got.header.Get("X-RateLimit-Remaining"))
	require.Equal(t, "1781515800", got.header.Get("X-RateLimit-Reset"))
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	for _, target := range []string{
		"GET /", "GET /v1", "GET /v1/nothing", "POST /v1/leaderboard", "PUT /v1/me", "GET /v1/ingest", "PUT /v1/ingest",
		"GET /v1/sessions/" + testUser.String() + "/files", "GET /health/", "BREW /health", "GET /%2e%2e/etc/passwd",
	} {
		var method, path string
		_, err := fmt.Sscan(target, &method, &path)
		require.NoError(t, err)
		b.call(t, method, path, "", signedIn()).requireError(t, http.StatusNotFound, api.ErrorCodeNotFound)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"runtime": nil, "text": "secret-in-panic", "error": errors.New("secret-in-panic")} {
		b := setup(t, &fake{get: func(uuid.UUID) (*sessions.Detail, error) {
			if value == nil {
				var d *sessions.Detail
				return nil, fmt.Errorf("%s", d.TopLang)
			}
			panic(value)
		}})
		got := b.call(t, http.MethodGet, "/v1/sessions/"+testUser.String(), "", signedIn())
		got.requireError(t, http.StatusInternalServerError, api.ErrorCodeInternalError)
		require.Contains(t, b.logs.String(), "goroutine", name)
		require.NotContains(t, b.logs.String()+got.body, "secret-in-panic")
	}
}

// A handler may ask for the connection to be dropped; net/http knows that panic.
func TestAbortPassesThrough(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{get: func(uuid.UUID) (*sessions.Detail, error) { panic(http.ErrAbortHandler) }})
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		b.call(t, http.MethodGet, "/v1/sessions/"+testUser.String(), "", signedIn())
	})
}

// What Postgres says can quote values.
func TestPostgresMessagesAreNotLogged(t *testing.T) {
	t.Parallel()
	pg := &pgconn.PgError{Severity: "ERROR", Code: "22P02", Message: `invalid input syntax: "secret/path"`, Detail: "secret/path"}
	b := setup(t, &fake{me: func() (account.Facts, error) { return account.Facts{}, fmt.Errorf("read user: %w", pg) }})
	got := b.call(t, http.MethodGet, "/v1/me", "", signedIn())
	got.requireError(t, http.StatusInternalServerError, api.ErrorCodeInternalError)
	require.Contains(t, b.logs.String(), "read user: SQLSTATE 22P02")
	require.NotContains(t, b.logs.String()+got.body, "secret")
}

// A client that hangs up is no failure of ours.
func TestHangUpIsNotLogged(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{me: func() (account.Facts, error) { return account.Facts{}, context.Canceled }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := b.call(t, http.MethodGet, "/v1/me", "", signedIn(), func(r *http.Request) { *r = *r.WithContext(ctx) })
	got.requireError(t, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable)
	require.NotContains(t, b.logs.String(), "request failed")
}
