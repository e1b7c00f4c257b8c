package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/health"
	"github.com/commma/commma/internal/httpapi"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/profile"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/verify"
	"github.com/commma/commma/internal/views"
	"github.com/commma/commma/internal/writebehind"
)

// backend is the domain, wired over one Postgres and one Redis: what serve, worker and dev have in common.
type backend struct {
	log        *slog.Logger
	clock      clock.Clock
	pool       *pgxpool.Pool
	redis      redis.UniversalClient
	finalizer  *aggregate.Finalizer
	aggregator *aggregate.Aggregator
	pruner     *aggregate.Pruner
	builder    *leaderboard.Builder
	publisher  *outbox.Publisher
	checker    *verify.Checker
	debounced  debounced
	views      *views.Recorder
	seen       *lastseen.Seen
	flusher    *writebehind.Flusher
	bell       leaderboard.Bell
	metrics    *metrics
	registry   *prometheus.Registry
	// missing is signalled when a reader found a board that should be there and is not.
	missing chan struct{}
}

// openBackend connects and checks what must be there: Postgres with an up-to-date schema. Redis may be away, since
// everything works without it, only slower; that is said in the log.
func openBackend(ctx context.Context, p *program, f storeFlags, parallel int) (*backend, error) {
	pool, err := store.Open(ctx, f.DatabaseURL, store.Options{MaxConns: f.DatabaseMax, Log: p.log, Clock: p.clock})
	if err != nil {
		return nil, err
	}
	rdb, err := redisconn.New(f.RedisURL)
	if err != nil {
		pool.Close()
		return nil, err
	}
	b := &backend{
		log: p.log, clock: p.clock, pool: pool, redis: rdb,
		registry: prometheus.NewRegistry(),
		missing:  make(chan struct{}, 1),
	}
	if err := b.checkSchema(ctx); err != nil {
		b.Close()
		return nil, err
	}
	b.checkRedis(ctx)
	b.finalizer = aggregate.NewFinalizer(outbox.Enqueue, followSessions)
	b.aggregator = aggregate.New(pool, b.finalizer, b.clock, b.log, parallel)
	b.pruner = aggregate.NewPruner(pool, aggregate.PruneConfig{})
	keys := languages.Keys()
	b.builder = leaderboard.NewBuilder(pool, rdb, keys, b.log)
	b.publisher = outbox.New(pool, leaderboard.NewBoards(rdb), b.builder, keys)
	b.checker = verify.New(verify.Deps{
		DB: pool, Finalizer: b.finalizer, Boards: leaderboard.NewVerifier(pool, rdb, keys), Builder: b.builder, Publisher: b.publisher,
		Clock: b.clock, Log: b.log,
	})
	b.views, b.seen = views.NewRecorder(rdb, b.clock, b.log, views.RecorderConfig{}), lastseen.New(pool, rdb, b.clock)
	b.flusher = writebehind.NewFlusher(pool, rdb, b.clock, views.Kind(), lastseen.Kind())
	b.bell = leaderboard.NewBell(rdb)
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b.metrics = newMetrics(b.registry)
	b.debounced = b.newDebounced()
	return b, nil
}

// Close lets go of the servers, Redis first: nothing that is still to be written goes there.
func (b *backend) Close() {
	_ = b.redis.Close()
	b.pool.Close()
}

func (b *backend) checkSchema(ctx context.Context) error {
	missing, err := store.MissingMigrations(ctx, b.pool)
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
	warnings, err := health.NewRedis(b.redis).Check(ctx)
	if err != nil {
		b.log.WarnContext(ctx, "Redis does not answer: boards are read from Postgres and limits are kept per process until it does", "err", err)
	}
	for _, w := range warnings {
		b.log.WarnContext(ctx, "Redis is not set up for buffered counts", "setting", w)
	}
}

// api wires the HTTP server and the writer behind it.
func (b *backend) api(f apiFlags) (*httpapi.Server, *ingest.Writer, error) {
	modes := privacy.NewCache(b.redis, b.clock, 0)
	admit, err := admission.New(f.admission(), admission.Deps{
		DB: b.pool, Redis: b.redis, Modes: modes, Seen: b.seen, Clock: b.clock, Log: b.log, Observer: b.metrics,
	})
	if err != nil {
		return nil, nil, err
	}
	accounts, err := account.New(account.Config{}, account.Deps{
		DB: b.pool, Modes: modes, Clock: b.clock, Log: b.log,
		FinalizeFunc: func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
			_, err := b.finalizer.FinalizeTx(ctx, tx, id, nil)
			return err
		},
		DeleteSessionFunc: b.finalizer.DeleteSessionTx,
		EraseUserFunc:     b.debounced.eraseUser,
		ForgetFunc:        admit.Forget,
		ForgetPendingFunc: b.forgetPending,
		EnqueueFunc: func(ctx context.Context, tx pgx.Tx, id uuid.UUID, version int64) error {
			return outbox.Enqueue(ctx, tx, id, version)
		},
		PublishFunc: func(ctx context.Context, id uuid.UUID) error {
			return b.publisher.PublishUsers(ctx, nil, id)
		},
	})
	if err != nil {
		return nil, nil, err
	}
	writer := ingest.NewWriter(b.pool, b.log, ingest.DefaultWriterConfig())
	server, err := httpapi.New(httpapi.Deps{
		Admission: admit,
		Events:    writer,
		Accounts:  accounts,
		Boards:    leaderboard.NewReader(b.pool, b.redis, leaderboard.ReaderConfig{MissingFunc: b.boardMissing, Log: b.log}),
		Sessions:  sessions.NewReader(b.pool),
		Engaged:   engagement.NewService(b.pool, b.debounced.shares, b.debounced.engaged, b.log),
		Profiles:  profile.NewReader(b.pool, b.clock, languages.Keys()),
		Views:     b.views,
		ViewDays:  views.NewReader(b.pool, b.clock),
		LastSeen:  b.seen,
		Postgres:  b.pool,
		Redis:     health.NewRedis(b.redis),
		Languages: f.languages(),
		Metrics:   b.registry,
		Clock:     b.clock,
		Logger:    b.log,
	}, httpapi.Config{Limits: f.limits(), TrustedProxies: f.TrustedProxies})
	return server, writer, err
}

func (b *backend) boardMissing(leaderboard.Board) {
	poke(b.missing)
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
	return f.admission().Validate()
}
