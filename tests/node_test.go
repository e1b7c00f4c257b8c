package tests

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/app/web"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/httpapi"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
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
	if cfg.clock == nil {
		cfg.clock = clock.System{}
	}
	node, err := app.New(pool, rdb, cfg.clock, cfg.log, cfg.options())
	require.NoError(t, err)
	server, err := httpapi.New(web.Deps(node, prometheus.NewRegistry()), httpapi.Config{DrainTimeout: time.Second})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	writerCtx, stopWriter := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = node.Events.Run(writerCtx) })
	running.Go(func() {
		defer stopWriter()
		_ = server.Serve(ctx, listener)
	})
	if cfg.aggregate {
		running.Go(func() {
			for ctx.Err() == nil {
				_, _ = node.Aggregator.Cycle(ctx, nil)
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

// options are what the node has otherwise than serve: no limits, and failures that are part of the trial, not its end.
func (cfg nodeConfig) options() app.Options {
	o := app.Options{Parallel: 4, Admission: admission.DefaultConfig(), ModeTTL: cfg.ttl, ModeClock: cfg.modeClock}
	for scope := range o.Admission.PerHour {
		o.Admission.PerHour[scope] = 0
	}
	o.Admission.FailedAuthPerHour = 0
	o.Admission.BreakerOpen = 50 * time.Millisecond
	if cfg.patient {
		o.Admission.RedisTimeout = 50 * time.Second
		o.Account.CacheTimeout = 5 * time.Second
		o.Views.Timeout = 5 * time.Second
	}
	return o
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
