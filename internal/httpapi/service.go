package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/redact"
)

// Pinger is Postgres, as far as readiness is concerned: a *pgxpool.Pool.
type Pinger interface {
	Ping(ctx context.Context) error
}

// RedisProbe is Redis, as far as readiness is concerned: a *health.Redis.
type RedisProbe interface {
	// Check says whether Redis answers, and which of its settings put data at risk.
	Check(ctx context.Context) (warnings []string, err error)
}

// handlers implements the generated server interface. It is apart from Server so that the handlers do not become methods of
// what others hold.
type handlers struct {
	Deps
	cfg            Config
	metricsHandler http.Handler
}

var _ api.ServerInterface = (*handlers)(nil)

// readyTimeout bounds each check of readiness, well under what an orchestrator waits for a probe.
const readyTimeout = 2 * time.Second

// GetHealth says that the process is up.
func (h *handlers) GetHealth(c echo.Context) error {
	return writeJSON(c, http.StatusOK, api.Health{Status: api.HealthStatusOk, TS: api.Instant(h.Clock.Now())})
}

// GetReadiness asks Postgres and Redis at once.
func (h *handlers) GetReadiness(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	var (
		checks              sync.WaitGroup
		postgres, redisFail error
		warnings            []string
	)
	// Together, so that the answer takes one bound and not two.
	checks.Go(func() { postgres = h.Postgres.Ping(ctx) })
	checks.Go(func() { warnings, redisFail = h.Redis.Check(ctx) })
	checks.Wait()
	h.logUnready(c, "postgres", postgres)
	h.logUnready(c, "redis", redisFail)

	r := api.Readiness{
		Status:   api.ReadinessStatusReady,
		TS:       api.Instant(h.Clock.Now()),
		Postgres: dependencyState(postgres),
		Redis:    dependencyState(redisFail),
		Warnings: append([]string{}, warnings...),
	}
	// Without Redis requests still succeed: taking the process out of rotation would make a small failure a large one.
	status := http.StatusOK
	switch {
	case postgres != nil:
		r.Status, status = api.ReadinessStatusUnavailable, http.StatusServiceUnavailable
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.FormatInt(ceilSeconds(retryUnavailable), 10))
	case redisFail != nil:
		r.Status = api.ReadinessStatusDegraded
	}
	return writeJSON(c, status, r)
}

// logUnready is where the cause goes that the public answer does not tell.
func (h *handlers) logUnready(c echo.Context, dependency string, err error) {
	if err == nil {
		return
	}
	h.Logger.LogAttrs(c.Request().Context(), slog.LevelWarn, "dependency is not ready",
		slog.String("dependency", dependency), slog.String("err", redact.Error(err)), slog.String("request_id", requestID(c)))
}

// dependencyState is all that the public learns of a failure.
func dependencyState(err error) api.DependencyState {
	if err != nil {
		return api.DependencyStateFailed
	}
	return api.DependencyStateOk
}

// GetMetrics shows the process's metrics.
func (h *handlers) GetMetrics(c echo.Context) error {
	h.metricsHandler.ServeHTTP(c.Response(), c.Request())
	return nil
}
