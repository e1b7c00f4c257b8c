package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/app/web"
	"github.com/commma/commma/internal/httpapi"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
)

// backend is the domain, wired over one Postgres and one Redis, with its metrics: what serve, worker and dev have in common.
type backend struct {
	*app.App
	metrics  *metrics
	registry *prometheus.Registry
	// missing is signalled when a reader found a board that should be there and is not.
	missing chan struct{}
}

// openBackend connects and checks what must be there: Postgres with an up-to-date schema. Redis may be away, since
// everything works without it, only slower; that is said in the log.
func openBackend(ctx context.Context, p *program, f storeFlags, o app.Options) (*backend, error) {
	pool, err := store.Open(ctx, f.DatabaseURL, store.Options{MaxConns: f.DatabaseMax, Log: p.log, Clock: p.clock})
	if err != nil {
		return nil, err
	}
	rdb, err := redisconn.New(f.RedisURL)
	if err != nil {
		pool.Close()
		return nil, err
	}
	b := &backend{registry: prometheus.NewRegistry(), missing: make(chan struct{}, 1)}
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b.metrics = newMetrics(b.registry)
	o.Observer, o.ObserveCounterFunc = b.metrics, newDebounceMetrics(b.registry).observe
	o.Boards.MissingFunc = func(leaderboard.Board) { poke(b.missing) }
	if b.App, err = app.New(pool, rdb, p.clock, p.log, o); err == nil {
		err = b.checkSchema(ctx)
	}
	if err != nil {
		_ = rdb.Close()
		pool.Close()
		return nil, err
	}
	b.checkRedis(ctx)
	return b, nil
}

// Close lets go of the servers, Redis first: nothing that is still to be written goes there.
func (b *backend) Close() {
	_ = b.Redis.Close()
	b.DB.Close()
}

func (b *backend) checkSchema(ctx context.Context) error {
	missing, err := store.MissingMigrations(ctx, b.DB)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("the database lacks migrations (%s): run 'commma-api migrate up' first", strings.Join(missing, ", "))
	}
	return nil
}

// redisCheckTimeout bounds the check at start.
const redisCheckTimeout = 3 * time.Second

func (b *backend) checkRedis(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, redisCheckTimeout)
	defer cancel()
	warnings, err := b.Health.Check(ctx)
	if err != nil {
		b.Log.WarnContext(ctx, "Redis does not answer: boards are read from Postgres and limits are kept per process until it does", "err", err)
	}
	for _, w := range warnings {
		b.Log.WarnContext(ctx, "Redis is not set up for buffered counts", "setting", w)
	}
}

// api makes the HTTP server.
func (b *backend) api(f apiFlags) (*httpapi.Server, error) {
	return httpapi.New(web.Deps(b.App, b.registry), httpapi.Config{
		Limits: f.limits(), TrustedProxies: f.TrustedProxies, CORSOrigins: f.CORSOrigins,
	})
}

// options are what the flags of the API and of the loops say of the domain.
func (f *apiFlags) options(loops loopFlags) app.Options {
	return app.Options{Parallel: loops.Parallel, Languages: f.languages(), Admission: f.admission()}
}

func (f *apiFlags) languages() *languages.Resolver {
	if !f.LanguageAliases {
		return languages.FoldOnly()
	}
	return languages.New()
}

func (f *apiFlags) limits() ingest.Limits {
	l := ingest.DefaultLimits()
	l.MaxAge = f.MaxEventAge
	return l
}

func (f *apiFlags) admission() admission.Config {
	c := admission.DefaultConfig()
	c.PerHour = map[admission.Scope]int{
		admission.ScopeIngest: f.IngestPerHour,
		admission.ScopeRead:   f.ReadsPerHour,
		admission.ScopeWrite:  f.WritesPerHour,
	}
	c.FailedAuthPerHour = f.FailedAuthPerHour
	return c
}

func (f *apiFlags) check() error {
	if f.MaxEventAge <= 0 {
		return errors.New("--max-event-age must be positive")
	}
	for _, origin := range f.CORSOrigins {
		if err := httpapi.ValidateOrigin(origin); err != nil {
			return fmt.Errorf("--cors-origins: %w", err)
		}
	}
	return f.admission().Validate()
}
