package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/sessions"
)

func TestAccessLog(t *testing.T) {
	t.Parallel()
	b := setupDeps(t, Config{}, func(d *Deps) {
		c := d.Clock
		d.Sessions = &fake{get: func(uuid.UUID) (*sessions.Detail, error) {
			c.(interface{ Advance(time.Duration) }).Advance(250 * time.Millisecond)
			return nil, sessions.ErrNotFound
		}}
	})
	got := b.call(t, http.MethodGet, "/v1/sessions/"+testUser.String()+"?q=1", "", signedIn())
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.logs.String()), &line), "exactly one line")
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "request", "method": "GET", "route": "/v1/sessions/:id", "status": 404.0,
		"took": float64(250 * time.Millisecond), "request_id": got.header.Get("X-Request-Id"),
	}, line)
}

func TestRequestIDsAreOurs(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	first := b.call(t, http.MethodGet, "/health", "", withHeader("X-Request-Id", "theirs")).header.Get("X-Request-Id")
	second := b.call(t, http.MethodGet, "/health", "").header.Get("X-Request-Id")
	require.NoError(t, uuid.Validate(first))
	require.NotEqual(t, first, second)
}

// series lists the label sets of the request metric.
func series(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "commma_http_request_duration_seconds" {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			all = append(all, fmt.Sprintf("%s x%d", strings.Join(labels, " "), m.GetHistogram().GetSampleCount()))
		}
	}
	return all
}

// Whatever is sent, the number of series stays what the routes make it.
func TestMetricsHaveFixedLabels(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	for i := range 20 {
		b.call(t, fmt.Sprintf("BREW%d", i), "/health", "")
		b.call(t, http.MethodGet, fmt.Sprintf("/nothing/%d", i), "")
		b.call(t, http.MethodGet, "/v1/sessions/"+uuid.NewString(), "", signedIn())
		b.call(t, http.MethodGet, "/health", "", func(r *http.Request) { r.Host = fmt.Sprintf("h%d.example", i) })
	}
	require.ElementsMatch(t, []string{
		"other /health 404 x20", "GET unmatched 404 x20", "GET /v1/sessions/:id 200 x20", "GET /health 200 x20",
	}, series(t, b.registry))

	got := b.call(t, http.MethodGet, "/metrics", "")
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, "commma_http_requests_in_flight 1")
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8"), netip.MustParsePrefix("fd00::/8")}
	for name, tc := range map[string]struct {
		trusted   []netip.Prefix
		remote    string
		forwarded []string
		want      string
	}{
		"direct":                    {nil, "203.0.113.7:1234", nil, "203.0.113.7"},
		"header of a stranger":      {nil, "203.0.113.7:1234", []string{"1.1.1.1"}, "203.0.113.7"},
		"loopback is nobody's":      {nil, "127.0.0.1:1234", []string{"1.1.1.1"}, "127.0.0.1"},
		"private is nobody's":       {proxies, "192.168.0.1:1234", []string{"1.1.1.1"}, "192.168.0.1"},
		"trusted proxy":             {proxies, "10.9.9.9:1234", []string{"198.51.100.4"}, "198.51.100.4"},
		"client makes one up":       {proxies, "10.9.9.9:1234", []string{"1.1.1.1, 198.51.100.4"}, "198.51.100.4"},
		"chain of proxies":          {proxies, "10.9.9.9:1234", []string{"198.51.100.4, 10.0.0.2"}, "198.51.100.4"},
		"two headers":               {proxies, "10.9.9.9:1234", []string{"1.1.1.1", "198.51.100.4"}, "198.51.100.4"},
		"trusted proxy over IPv6":   {proxies, "[fd00::1]:1234", []string{"2001:db8::5"}, "2001:db8::5"},
		"IPv4 mapped":               {nil, "[::ffff:203.0.113.7]:1234", nil, "203.0.113.7"},
		"nonsense from the proxy":   {proxies, "10.9.9.9:1234", []string{"nonsense"}, "10.9.9.9"},
		"proxy says nothing":        {proxies, "10.9.9.9:1234", nil, "10.9.9.9"},
		"no address: a Unix socket": {nil, "@", nil, "invalid IP"},
	} {
		var got netip.Addr
		b := setupWith(t, &fake{admit: func(r admission.Request) (admission.Grant, error) {
			got = r.Addr
			return admission.Grant{}, nil
		}}, Config{TrustedProxies: tc.trusted})
		b.call(t, http.MethodGet, "/metrics", "")
		b.echo.ServeHTTP(discard{}, mustRequest(t, tc.remote, tc.forwarded))
		require.Equal(t, tc.want, got.String(), name)
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

func mustRequest(t *testing.T, remote string, forwarded []string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/leaderboard", nil)
	require.NoError(t, err)
	r.RemoteAddr = remote
	r.Header["X-Forwarded-For"] = forwarded
	return r
}

func TestBearerToken(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer abc": "abc", "BEARER  abc ": "abc", "Basic abc": "", "abc": "", "": "", "Bearer": "",
	} {
		token, sent := bearerToken(http.Header{"Authorization": {header}})
		require.Equal(t, want, token, header)
		require.True(t, sent)
	}
	_, sent := bearerToken(http.Header{})
	require.False(t, sent)
	token, sent := bearerToken(http.Header{"Authorization": {"Bearer a", "Bearer b"}})
	require.Empty(t, token)
	require.True(t, sent)
}

func TestWithoutALimitThereAreNoHeaders(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	setLimitHeaders(h, admission.LimitState{})
	require.Empty(t, h)
}

const marker = "s3cr3t-m4rker"

// Whatever goes wrong, nothing that a client sent is in the log.
func TestNothingSentIsLogged(t *testing.T) {
	t.Parallel()
	failures := map[string]error{
		"none":     nil,
		"bug":      errors.New("boom"),
		"Postgres": fmt.Errorf("read: %w", &pgconn.PgError{Severity: "ERROR", Code: "22021", Message: marker, Hint: marker}),
		"late":     context.DeadlineExceeded,
		"panic":    errPanic,
	}
	for name, failure := range failures {
		fail := func() error {
			if failure == errPanic { //nolint:errorlint // it is a value to compare with
				panic(marker)
			}
			return failure
		}
		b := setup(t, &fake{
			store: func(context.Context, *ingest.Batch) (ingest.Stored, error) { return ingest.Stored{}, fail() },
			me:    func() (account.Facts, error) { return demoFacts(), fail() },
			page: func(b leaderboard.Board, _ leaderboard.Query) (leaderboard.Page, error) {
				return leaderboard.Page{Board: b}, fail()
			},
			get: func(uuid.UUID) (*sessions.Detail, error) { return &sessions.Detail{}, fail() },
		})
		for _, request := range []string{
			"POST /v1/ingest", "GET /v1/leaderboard", "GET /v1/me", "PATCH /v1/me", "GET /v1/sessions", "GET /readyz",
			"GET /v1/sessions/" + testUser.String(), "GET /v1/sessions/" + marker, "GET /" + marker, marker + " /v1/me",
		} {
			method, path, _ := strings.Cut(request, " ")
			for _, token := range []string{goodToken, marker} {
				for _, body := range []string{strings.ReplaceAll(events(1, 0), "a.go", marker), `{"` + marker + `":1}`, marker} {
					b.call(t, method, path+"?cursor="+marker+"&lang=go&x="+marker, body,
						withHeader("Authorization", "Bearer "+token), withHeader("User-Agent", marker),
						withHeader("X-Request-Id", marker), withHeader("X-Forwarded-For", marker),
						withHeader("Content-Encoding", strings.Repeat(marker, len(body)%2)),
						func(r *http.Request) { r.Host, r.RemoteAddr = marker, marker })
				}
			}
		}
		require.Contains(t, b.logs.String(), `"msg":"request"`)
		require.NotContains(t, b.logs.String(), marker, name)
		require.NotContains(t, strings.Join(series(t, b.registry), "\n"), marker)
	}
}

var errPanic = errors.New("to be panicked with")
