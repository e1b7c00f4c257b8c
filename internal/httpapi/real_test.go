package httpapi

import (
	"context"
	"log/slog"
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
	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/views"
)

// real is a server with everything behind it, wired as the program wires it; the aggregator is not needed here.
type real struct {
	*app.App
	bundle
	now *clock.Manual
}

func setupReal(t *testing.T, pool *pgxpool.Pool, redisURL string, limits admission.Config, cfg Config) real {
	t.Helper()
	return setupLogging(t, pool, redisURL, limits, cfg, nil)
}

// setupLogging has every part write to one log. Without one the server's goes to the bundle, and that of what is behind it
// to the test.
func setupLogging(t *testing.T, pool *pgxpool.Pool, redisURL string, limits admission.Config, cfg Config, one *slog.Logger) real {
	t.Helper()
	rdb, err := redisconn.New(redisURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	log, now := one, clock.NewManual(testNow)
	if log == nil {
		log = testenv.Logger(t)
	}
	a, err := app.New(pool, rdb, now, log, app.Options{
		Admission: limits, Account: account.Config{LockWait: 200 * time.Millisecond},
		Views: views.RecorderConfig{Timeout: time.Second}, PublishClock: now,
	})
	require.NoError(t, err)
	run(t, a.Events)
	return real{App: a, now: now, bundle: setupDeps(t, cfg, func(d *Deps) {
		serverLog := d.Logger
		if one != nil {
			serverLog = one
		}
		*d = depsOf(a, d.Metrics, serverLog)
	})}
}

// depsOf is web.Deps, which the tests of this package cannot import.
func depsOf(a *app.App, metrics MetricsRegistry, log *slog.Logger) Deps {
	return Deps{
		Admission:   a.Admission,
		Events:      a.Events,
		Accounts:    a.Accounts,
		Boards:      a.Boards,
		Circles:     a.Circles,
		Sessions:    a.Sessions,
		Engaged:     a.Engagement,
		Following:   a.Following,
		Groups:      a.Groups,
		Memberships: a.Groups,
		Profiles:    a.Profiles,
		Views:       a.Views,
		ViewDays:    a.ViewDays,
		LastSeen:    a.LastSeen,
		Today:       a.Today,
		Exports:     a.Exports,
		Recaps:      a.Recaps,
		Links:       a.Links,
		Postgres:    a.DB,
		Redis:       a.Health,
		Languages:   a.Languages,
		Metrics:     metrics,
		Clock:       a.Clock,
		Logger:      log,
	}
}

// run runs the writer until the test ends.
func run(t *testing.T, w *ingest.Writer) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

func (r real) mustUser(t *testing.T, handle string) account.Created {
	t.Helper()
	u, err := r.Accounts.Create(t.Context(), account.NewUser{Handle: handle, Zone: "Europe/Berlin"})
	require.NoError(t, err)
	return u
}

func bearer(u account.Created) option { return withHeader("Authorization", "Bearer "+u.Token) }

func TestEverythingTogether(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	r := setupReal(t, pool, testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	ada := r.mustUser(t, "ada")

	got := r.call(t, http.MethodPost, "/v1/ingest", events(3, 1), bearer(ada))
	require.JSONEq(t, `{"received":4,"duplicate":1,"rejected":[],"rejected_total":0}`, got.body)
	require.Equal(t, "1000", got.header.Get("X-RateLimit-Limit"))
	bad := `{"id":"` + uuid.NewString() + `","ts":1700000000000,"keystrokes":1,"lines":0}`
	got = r.call(t, http.MethodPost, "/v1/ingest", `{"events":[`+bad+`]}`, bearer(ada))
	require.EqualValues(t, 1, got.json(t)["rejected_total"])
	got = r.call(t, http.MethodGet, "/v1/me", "", bearer(ada))
	require.Equal(t, map[string]any{"too_old": 1.0}, got.json(t)["rejections_7d"])

	got = r.call(t, http.MethodPatch, "/v1/me", `{"privacy":"summary","timezone":"Asia/Tokyo"}`, bearer(ada))
	require.Equal(t, "summary", got.json(t)["privacy"])
	require.Equal(t, "Asia/Tokyo", got.json(t)["timezone"])
	var paths int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM events WHERE file IS NOT NULL`).Scan(&paths))
	require.Zero(t, paths)

	_, err := pool.Exec(t.Context(), `INSERT INTO totals (user_id, period, starts_on, lang, seconds) VALUES ($1, 'week', '2026-06-15', 'go', 60)`, ada.ID)
	require.NoError(t, err)
	got = r.call(t, http.MethodGet, "/v1/leaderboard?around=me&lang=Golang", "", bearer(ada))
	require.Equal(t, "ada", got.json(t)["me"].(map[string]any)["handle"], got.body)
	got = r.call(t, http.MethodGet, "/v1/leaderboard?cursor=nonsense", "")
	got.requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)

	for _, day := range []string{"1970-01-01", "9999-12-31"} {
		for _, period := range []string{"day", "week", "month", "alltime"} {
			got = r.call(t, http.MethodGet, "/v1/leaderboard?period="+period+"&starts_on="+day, "")
			require.Equal(t, http.StatusOK, got.status, got.body)
		}
	}
	for _, year := range []int{0, 9999} { // as far as a cursor can be read
		c := sessions.Cursor{StartedAt: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), ID: ada.ID}
		got = r.call(t, http.MethodGet, "/v1/sessions?cursor="+c.String(), "", bearer(ada))
		require.Equal(t, http.StatusOK, got.status, got.body)
	}

	got = r.call(t, http.MethodGet, "/v1/sessions", "", bearer(ada))
	require.JSONEq(t, `{"sessions":[],"next_cursor":null}`, got.body)
	r.call(t, http.MethodGet, "/v1/sessions/"+uuid.NewString(), "", bearer(ada)).
		requireError(t, http.StatusNotFound, api.ErrorCodeNotFound)

	stranger := account.Created{Token: admission.NewToken(uuid.New())}
	r.call(t, http.MethodPost, "/v1/ingest", events(1, 0), bearer(stranger)).
		requireError(t, http.StatusForbidden, api.ErrorCodeForbidden)
	forged := account.Created{Token: admission.NewToken(ada.ID)}
	r.call(t, http.MethodGet, "/v1/leaderboard", "", bearer(forged)).
		requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
}

func TestAnOffUserIsAnsweredAndNotStored(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	r := setupReal(t, pool, testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	ada := r.mustUser(t, "ada")
	off := activity.ModeOff
	require.NoError(t, r.Accounts.Change(t.Context(), ada.ID, account.Change{Mode: &off}))
	got := r.call(t, http.MethodPost, "/v1/ingest", events(2, 1), bearer(ada))
	require.JSONEq(t, `{"received":0,"duplicate":0,"rejected":[],"rejected_total":0}`, got.body)
	var stored int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&stored))
	require.Zero(t, stored)
}

func TestLimitsOfUsersAndAddresses(t *testing.T) {
	t.Parallel()
	limits := admission.DefaultConfig()
	limits.PerHour = map[admission.Scope]int{admission.ScopeIngest: 1, admission.ScopeRead: 1, admission.ScopeWrite: 1}
	limits.FailedAuthPerHour = 1
	r := setupReal(t, testenv.Postgres(t), testenv.RedisURL(t), limits, Config{})
	ada := r.mustUser(t, "ada")
	for _, o := range [][]option{{bearer(ada)}, nil} {
		require.Equal(t, http.StatusOK, r.call(t, http.MethodGet, "/v1/leaderboard", "", o...).status)
		got := r.call(t, http.MethodGet, "/v1/leaderboard", "", o...)
		got.requireError(t, http.StatusTooManyRequests, api.ErrorCodeRateLimited)
		require.NotEmpty(t, got.header.Get("Retry-After"))
		require.Equal(t, "0", got.header.Get("X-RateLimit-Remaining"))
	}
	wrong := withHeader("Authorization", "Bearer wrong")
	r.call(t, http.MethodGet, "/v1/me", "", wrong).requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
	r.call(t, http.MethodGet, "/v1/me", "", wrong).requireError(t, http.StatusTooManyRequests, api.ErrorCodeRateLimited)
	require.Equal(t, http.StatusAccepted, r.call(t, http.MethodPost, "/v1/ingest", events(1, 0), bearer(ada)).status,
		"a good token is not turned away for its neighbours' failures")
}

// Without Postgres there is an answer, without Redis even the right one.
func TestDependenciesThatAreAway(t *testing.T) {
	t.Parallel()
	postgres, redisServer := testenv.OwnPostgres(t), testenv.OwnRedis(t)
	pool, err := store.Open(t.Context(), postgres.URL(), store.Options{})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	r := setupReal(t, pool, redisServer.URL(), admission.DefaultConfig(), Config{})
	ada := r.mustUser(t, "ada")
	require.Equal(t, http.StatusAccepted, r.call(t, http.MethodPost, "/v1/ingest", events(1, 0), bearer(ada)).status)

	require.NoError(t, postgres.Stop(t.Context()))
	for _, request := range requests(ada) {
		got := request(t, r)
		got.requireError(t, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable)
		require.NotEmpty(t, got.header.Get("Retry-After"))
	}
	require.Equal(t, http.StatusServiceUnavailable, r.call(t, http.MethodGet, "/readyz", "").status)
	require.Equal(t, http.StatusOK, r.call(t, http.MethodGet, "/health", "").status)

	require.NoError(t, postgres.Restart(t.Context()))
	require.NoError(t, redisServer.Kill(t.Context()))
	require.Eventually(t, func() bool {
		return r.call(t, http.MethodGet, "/v1/me", "", bearer(ada)).status == http.StatusOK
	}, patience, 10*time.Millisecond)
	got := r.call(t, http.MethodPost, "/v1/ingest", events(1, 0), bearer(ada))
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.NotEmpty(t, got.header.Get("X-RateLimit-Remaining"), "each process limits by itself")
	require.Equal(t, http.StatusOK, r.call(t, http.MethodGet, "/v1/leaderboard", "").status)
	got = r.call(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, `"status":"degraded"`)
}

// requests are one of each that asks a dependency.
func requests(u account.Created) (list []func(*testing.T, real) reply) {
	for _, line := range []string{
		"POST /v1/ingest", "GET /v1/me", "PATCH /v1/me", "GET /v1/sessions", "GET /v1/sessions/" + u.ID.String(), "GET /v1/leaderboard",
		"GET /v1/users/" + u.Handle, "POST /v1/views", "GET /v1/me/views", "GET /v1/users/" + u.Handle + "/sessions",
		"GET /v1/groups", "GET /v1/feed", "PUT /v1/users/" + u.Handle + "/follow", "GET /v1/leaderboard?scope=following",
		"GET /v1/heatmap", "GET /v1/me/today", "GET /v1/me/export",
	} {
		method, path, _ := strings.Cut(line, " ")
		body := events(1, 0)
		if method == http.MethodPatch {
			body = `{"privacy":"summary"}`
		}
		if path == "/v1/views" {
			body = `{"target":"profile:` + u.Handle + `"}`
		}
		list = append(list, func(t *testing.T, r real) reply { return r.call(t, method, path, body, bearer(u)) })
	}
	return list
}

// A dependency that hangs costs a bounded wait. The deadlines are shortened here: what is tested is that everything
// which is waited for watches them.
func TestDependenciesThatHang(t *testing.T) {
	t.Parallel()
	postgres, redisServer := testenv.OwnPostgres(t), testenv.OwnRedis(t)
	pool, err := store.Open(t.Context(), postgres.URL(), store.Options{})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	r := setupReal(t, pool, redisServer.URL(), admission.DefaultConfig(), Config{RequestTimeout: 4 * time.Second, IngestTimeout: time.Second})
	ada := r.mustUser(t, "ada")
	require.Equal(t, http.StatusOK, r.call(t, http.MethodGet, "/v1/me", "", bearer(ada)).status)

	require.NoError(t, postgres.Signal(syscall.SIGSTOP))
	for _, request := range requests(ada) {
		start := clock.System{}.Now()
		request(t, r).requireError(t, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable)
		require.Less(t, clock.System{}.Now().Sub(start), 8*time.Second)
	}
	require.NoError(t, postgres.Signal(syscall.SIGCONT))
	require.NoError(t, redisServer.Signal(syscall.SIGSTOP))
	for _, request := range requests(ada) {
		start := clock.System{}.Now()
		got := request(t, r)
		require.Less(t, got.status, 500, got.body)
		require.Less(t, clock.System{}.Now().Sub(start), 8*time.Second)
	}
	require.NoError(t, redisServer.Signal(syscall.SIGCONT))
}
