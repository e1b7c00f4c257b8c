// Package store opens Postgres: the pool, its types, transactions, migrations and the advisory lock keys. The queries
// themselves are generated from db/queries into the package dbsqlc below this one.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"

	"github.com/commma/commma/internal/clock"
)

// Options of a pool. Zero values mean the defaults.
type Options struct {
	MaxConns int32             // default: four per CPU, at least ten
	Log      *slog.Logger      // gets a line for each query, without SQL and arguments; default: none
	Clock    clock.Clock       // times queries; default: the system's
	Tracer   pgx.QueryTracer   // for tests: sees each query besides the log
	AppName  string            // shown in pg_stat_activity; default commma
	Settings map[string]string // further run-time parameters of each connection
}

// The commit groups, the aggregator and the requests of one process share its connections. pgx's own default of four
// would let a slow read wait behind a finalize.
const (
	minConns    = 10
	connsPerCPU = 4
)

// sessionSettings end what a process of ours that hangs, or a host that is gone, would hold: its transaction, with the
// locks of its users. They are set by statement, because a transaction pooler refuses them as startup parameters; there
// they are best set on the server. One that is stopped in the middle of sending statements is not ended: the server takes it
// for slow until the host is gone.
//
// Our statements are short. Where the planner takes one for long, as it does where it cannot know how few rows there are,
// compiling it costs a hundred times what running it does.
const sessionSettings = `
	SET jit = off;
	SET idle_in_transaction_session_timeout = '60s';
	SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3;
	SET tcp_user_timeout = 60000`

// connectTimeout bounds one attempt to reach the server: well under a client's 15 s.
const connectTimeout = 3 * time.Second

// errSimpleProtocol refuses the one way to run queries that makes their arguments, with users' paths among them, part of the
// SQL text, which pg_stat_activity and the server's log show.
var errSimpleProtocol = errors.New("database URL: default_query_exec_mode=simple_protocol would show arguments in pg_stat_activity " +
	"and in the server's log; behind a pooler without prepared statements use exec")

// Open makes a pool for the Postgres at url and checks that it answers.
func Open(ctx context.Context, url string, o Options) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx redacts the password in this error.
		return nil, fmt.Errorf("parse database URL: %w", err)
	}
	if cfg.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return nil, errSimpleProtocol
	}
	cfg.MaxConns = o.MaxConns
	if o.MaxConns <= 0 {
		cfg.MaxConns = int32(max(minConns, connsPerCPU*runtime.GOMAXPROCS(0)))
	}
	if o.AppName == "" {
		o.AppName = "commma"
	}
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.ConnConfig.Tracer = newTracer(o)
	cfg.ConnConfig.RuntimeParams["application_name"] = o.AppName
	// Days and instants are computed by us; the server's zone must never decide anything.
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	for k, v := range o.Settings {
		cfg.ConnConfig.RuntimeParams[k] = v
	}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		pgxuuid.Register(c.TypeMap())
		_, err := c.Exec(ctx, sessionSettings)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reach Postgres: %w", err)
	}
	return pool, nil
}

// Beginner starts transactions: a pool or a connection.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// rollbackTimeout bounds the clean-up after a cancelled request.
const rollbackTimeout = 5 * time.Second

// beginReadCommitted names the isolation level because advisory locks depend on it: under a level with one snapshot for
// all statements, what is read after a lock was taken could be older than the lock.
const beginReadCommitted = "BEGIN ISOLATION LEVEL READ COMMITTED"

// beginSnapshot is for reads by several statements that must agree with one another.
const beginSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

// WithTx runs fn in one READ COMMITTED transaction and commits it when fn returns nil.
func WithTx(ctx context.Context, db Beginner, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return within(ctx, db, beginReadCommitted, fn)
}

// WithSnapshot runs fn in a transaction whose statements all read what was committed when the first of them began, and
// that can change nothing.
func WithSnapshot(ctx context.Context, db Beginner, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return within(ctx, db, beginSnapshot, fn)
}

func within(ctx context.Context, db Beginner, begin string, fn func(ctx context.Context, tx pgx.Tx) error) error {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() {
		// A rollback must reach the server even when the caller has given up; after a commit it does nothing.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(rctx)
	}()
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
