package tests

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

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
	"github.com/commma/commma/internal/views"
	"github.com/commma/commma/internal/writebehind"
)

// nodeConfig is what an API inside the test has otherwise than serve.
type nodeConfig struct {
	database, rdb string
	ttl           time.Duration // of cached modes
	clock         clock.Clock   // optional
	modeClock     clock.Clock   // by which the cache judges a fill's age; nil is the system's
	hook          redis.Hook    // on all that goes to Redis; optional
	edits         edits         // made to all that ingest sends to Postgres
	aggregate     bool          // finalize without pause
	log           *slog.Logger  // optional
	patient       bool          // give Redis far more time than serve does, so that no write to it is given up
}

// startNode wires the API as serve does, inside the test, and returns its URL. It ends with the test.
func startNode(t *testing.T, cfg nodeConfig) string {
	t.Helper()
	if cfg.log == nil {
		cfg.log = nopLogger()
	}
	pool, err := store.Open(t.Context(), cfg.database, store.Options{AppName: "node", MaxConns: 16, Tracer: cfg.edits, Log: cfg.log})
	require.NoError(t, err)
	rdb, err := redisconn.New(cfg.rdb)
	require.NoError(t, err)
	if cfg.hook != nil {
		rdb.AddHook(cfg.hook)
	}
	finalizer := newFinalizer()
	server, writer := wireNode(t, pool, rdb, cfg, finalizer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	writerCtx, stopWriter := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = writer.Run(writerCtx) })
	running.Go(func() {
		defer stopWriter()
		_ = server.Serve(ctx, listener)
	})
	if cfg.aggregate {
		a := aggregate.New(pool, finalizer, clock.System{}, cfg.log, 4)
		running.Go(func() {
			for ctx.Err() == nil {
				_, _ = a.Cycle(ctx, nil)
				_ = clock.Sleep(ctx, 20*time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = rdb.Close()
		pool.Close()
	})
	return "http://" + listener.Addr().String()
}

func wireNode(t *testing.T, pool *pgxpool.Pool, rdb redis.UniversalClient, cfg nodeConfig, f *aggregate.Finalizer) (*httpapi.Server, *ingest.Writer) {
	t.Helper()
	var system clock.Clock = clock.System{}
	if cfg.clock != nil {
		system = cfg.clock
	}
	if cfg.modeClock == nil {
		cfg.modeClock = system
	}
	modes := privacy.NewCache(rdb, cfg.modeClock, cfg.ttl)
	admitConfig := admission.DefaultConfig()
	admitConfig.PerHour = map[admission.Scope]int{admission.ScopeIngest: 0, admission.ScopeRead: 0, admission.ScopeWrite: 0}
	admitConfig.FailedAuthPerHour = 0
	admitConfig.BreakerOpen = 50 * time.Millisecond // a failure is part of the trial, not the end of it
	accountConfig, viewConfig := account.Config{}, views.RecorderConfig{}
	if cfg.patient {
		admitConfig.RedisTimeout = 50 * time.Second
		accountConfig.CacheTimeout = 5 * time.Second
		viewConfig.Timeout = 5 * time.Second
	}
	seen, recorder := lastseen.New(pool, rdb, system), views.NewRecorder(rdb, system, cfg.log, viewConfig)
	admit, err := admission.New(admitConfig, admission.Deps{DB: pool, Redis: rdb, Modes: modes, Seen: seen, Clock: system, Log: cfg.log})
	require.NoError(t, err)
	keys := languages.Keys()
	publisher := outbox.New(pool, leaderboard.NewBoards(rdb), leaderboard.NewBuilder(pool, rdb, keys, cfg.log), keys)
	accounts, err := account.New(accountConfig, account.Deps{
		DB: pool, Modes: modes, Clock: system, Log: cfg.log,
		FinalizeFunc: func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
			_, err := f.FinalizeTx(ctx, tx, id, nil)
			return err
		},
		DeleteSessionFunc: f.DeleteSessionTx,
		EraseUserFunc: func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
			_, err := engagement.EraseUserTx(ctx, tx, id)
			return err
		},
		ForgetFunc: admit.Forget,
		ForgetPendingFunc: func(ctx context.Context, id uuid.UUID) error {
			return errors.Join(recorder.Forget(ctx, id), seen.Forget(ctx, id))
		},
		EnqueueFunc: func(ctx context.Context, tx pgx.Tx, id uuid.UUID, version int64) error {
			return outbox.Enqueue(ctx, tx, id, version)
		},
		PublishFunc: func(ctx context.Context, id uuid.UUID) error { return publisher.PublishUsers(ctx, nil, id) },
	})
	require.NoError(t, err)
	writer := ingest.NewWriter(pool, cfg.log, ingest.DefaultWriterConfig())
	flusher := engagement.NewFlusher(pool)
	shares := writebehind.NewDeltas("shares", writebehind.DebounceConfig{}, writebehind.DeltasDeps{
		DB: pool, Redis: rdb, Clock: system, Log: cfg.log, ApplyFunc: flusher.ApplyShares,
	})
	engaged := writebehind.NewArms("engaged", writebehind.DebounceConfig{}, writebehind.ArmsDeps{
		Redis: rdb, Clock: system, Log: cfg.log, FlushFunc: flusher.FlushDeltas, StaleFunc: flusher.Stale,
	})
	server, err := httpapi.New(httpapi.Deps{
		Admission: admit, Events: writer, Accounts: accounts,
		Boards:   leaderboard.NewReader(pool, rdb, leaderboard.ReaderConfig{Log: cfg.log}),
		Sessions: sessions.NewReader(pool), Engaged: engagement.NewService(pool, shares, engaged, cfg.log),
		Profiles: profile.NewReader(pool, system, keys), Views: recorder, ViewDays: views.NewReader(pool, system), LastSeen: seen,
		Postgres: pool, Redis: health.NewRedis(rdb), Languages: languages.New(),
		Metrics: prometheus.NewRegistry(), Clock: system, Logger: cfg.log,
	}, httpapi.Config{DrainTimeout: time.Second})
	require.NoError(t, err)
	return server, writer
}

// edits take a guard out of the statements that ingest sends: a tracer sees a pipeline before pgx does, and may change it.
type edits []*edit

// edit replaces a text in statements.
type edit struct {
	old, new string
	made     atomic.Int64
}

func (e edits) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	storing := false
	for _, q := range data.Batch.QueuedQueries {
		storing = storing || strings.Contains(q.SQL, "commma.admitted")
	}
	for _, edit := range e {
		for _, q := range data.Batch.QueuedQueries {
			if storing && strings.Contains(q.SQL, edit.old) {
				q.SQL = strings.ReplaceAll(q.SQL, edit.old, edit.new)
				edit.made.Add(1)
			}
		}
	}
	return ctx
}

func (edits) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (edits) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (edits) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (edits) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
