package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/health"
	"github.com/commma/commma/internal/testenv"
)

func TestHealthAsksNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{ping: errors.New("away"), check: func() ([]string, error) { return nil, errors.New("away") }})
	got := b.call(t, http.MethodGet, "/health", "")
	require.Equal(t, http.StatusOK, got.status)
	require.JSONEq(t, `{"status":"ok","ts":"2026-06-17T09:30:00.123Z"}`, got.body)
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	for name, tc := range map[string]struct {
		postgres, redis error
		warnings        []string
		status          int
		want            string
	}{
		"ready":            {nil, nil, nil, 200, `"status":"ready"`},
		"warnings":         {nil, nil, []string{"redis: appendonly is off, want yes"}, 200, `"warnings":["redis: appendonly is off, want yes"]`},
		"without Redis":    {nil, away, nil, 200, `"redis":"failed","status":"degraded"`},
		"without Postgres": {away, nil, nil, 503, `"postgres":"failed","redis":"ok","status":"unavailable"`},
		"without both":     {away, away, nil, 503, `"postgres":"failed","redis":"failed","status":"unavailable"`},
	} {
		b := setup(t, &fake{ping: tc.postgres, check: func() ([]string, error) { return tc.warnings, tc.redis }})
		got := b.call(t, http.MethodGet, "/readyz", "")
		require.Equal(t, tc.status, got.status, name)
		require.Contains(t, got.body, tc.want, name)
		require.NotContains(t, got.body, "refused", "the cause is for the log")
		require.Equal(t, tc.postgres != nil || tc.redis != nil, strings.Contains(b.logs.String(), "dependency is not ready"))
	}
}

// The real ones, wired as the program wires them.
func TestReadinessOfRealServers(t *testing.T) {
	t.Parallel()
	pool, rdb := testenv.Postgres(t), testenv.Redis(t)
	b := setupDeps(t, Config{}, func(d *Deps) { d.Postgres, d.Redis = pool, health.NewRedis(rdb) })
	got := b.call(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, `"postgres":"ok","redis":"ok","status":"ready"`)

	pool.Close()
	got = b.call(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
}
