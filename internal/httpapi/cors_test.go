package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/admission"
)

const (
	ourPage   = "https://commma.dev"
	otherPage = "https://commma.dev.example.org"
)

func from(origin string) option { return withHeader("Origin", origin) }

func corsServer(t *testing.T, f *fake) bundle {
	t.Helper()
	return setupWith(t, f, Config{CORSOrigins: []string{ourPage, "http://localhost:3000"}})
}

func TestPagesOfListedOriginsMayRead(t *testing.T) {
	t.Parallel()
	b := corsServer(t, &fake{})
	got := b.call(t, http.MethodGet, "/v1/leaderboard", "", from(ourPage))
	require.Equal(t, ourPage, got.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "true", got.header.Get("Access-Control-Allow-Credentials"))
	exposed := strings.Split(got.header.Get("Access-Control-Expose-Headers"), ",")
	require.ElementsMatch(t, []string{
		"ETag", "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id", "X-View-Recorded",
	}, exposed)
	refused := b.call(t, http.MethodGet, "/v1/me", "", from(ourPage))
	require.Equal(t, http.StatusUnauthorized, refused.status)
	require.Equal(t, ourPage, refused.header.Get("Access-Control-Allow-Origin"), "or the page cannot tell why")

	for _, origin := range []string{otherPage, "null", "http://commma.dev", "https://commma.dev:8443", "https://x.commma.dev", ""} {
		got := b.call(t, http.MethodGet, "/v1/leaderboard", "", from(origin))
		require.Equal(t, http.StatusOK, got.status)
		require.Empty(t, got.header.Get("Access-Control-Allow-Origin"), origin)
		require.Contains(t, got.header.Values("Vary"), "Origin", "a cache must not give one origin what another got")
	}
}

// A browser asks without a token, and before each first request of a kind: to count that, or to refuse it, would be to refuse
// what it asks for.
func TestPreflightsAreNotAdmitted(t *testing.T) {
	t.Parallel()
	b := corsServer(t, &fake{admit: func(admission.Request) (admission.Grant, error) { panic("admitted") }})
	for _, path := range []string{"/v1/me", "/v1/ingest", "/v1/sessions/" + testUser.String() + "/kudos"} {
		got := b.call(t, http.MethodOptions, path, "", from(ourPage),
			withHeader("Access-Control-Request-Method", "PUT"), withHeader("Access-Control-Request-Headers", "authorization"))
		require.Equal(t, http.StatusNoContent, got.status)
		require.Equal(t, ourPage, got.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "GET,POST,PUT,PATCH,DELETE", got.header.Get("Access-Control-Allow-Methods"))
		require.Equal(t, "Authorization,Content-Type,Content-Encoding,If-None-Match", got.header.Get("Access-Control-Allow-Headers"))
		require.Equal(t, "7200", got.header.Get("Access-Control-Max-Age"))
		require.Empty(t, got.header.Get("X-RateLimit-Limit"))

		got = b.call(t, http.MethodOptions, path, "", from(otherPage), withHeader("Access-Control-Request-Method", "PUT"))
		require.Empty(t, got.header.Get("Access-Control-Allow-Origin"))
		require.Empty(t, got.header.Get("Access-Control-Allow-Methods"))
	}
}

func TestWithoutOriginsNobodyMay(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	got := b.call(t, http.MethodGet, "/v1/leaderboard", "", from(ourPage))
	require.Empty(t, got.header.Get("Access-Control-Allow-Origin"))
	require.NotContains(t, got.header.Values("Vary"), "Origin")
	got = b.call(t, http.MethodOptions, "/v1/me", "", from(ourPage))
	require.Empty(t, got.header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, got.header.Get("Access-Control-Allow-Methods"))
}

func TestOriginsAreThoseOfBrowsers(t *testing.T) {
	t.Parallel()
	for _, good := range []string{ourPage, "http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:8080"} {
		require.NoError(t, ValidateOrigin(good))
	}
	for _, bad := range []string{
		"", "*", "null", "commma.dev", "https://commma.dev/", "https://commma.dev/x", "https://*.commma.dev", "https://Commma.dev",
		"ftp://commma.dev", "https://me@commma.dev", "https://commma.dev?x", "https://commma.dev:443", "http://commma.dev:80", "https://",
	} {
		require.Error(t, ValidateOrigin(bad), bad)
	}
	_, err := New(Deps{}, Config{CORSOrigins: []string{"*"}})
	require.ErrorContains(t, err, "no origin")
}
