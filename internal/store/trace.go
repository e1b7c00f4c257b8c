package store

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redact"
)

// slowQuery is how long a statement may take before the log says so.
const slowQuery = time.Second

// tracer logs what is asked of Postgres: the name of the query, how long it took, how many rows it read or wrote, and the
// SQLSTATE when it failed. It must never log SQL or arguments, nor what Postgres says beside the SQLSTATE, which quotes
// them. pgx's own tracelog does all three.
type tracer struct {
	log   *slog.Logger
	clock clock.Clock
}

var (
	_ pgx.QueryTracer    = (*tracer)(nil)
	_ pgx.BatchTracer    = (*tracer)(nil)
	_ pgx.CopyFromTracer = (*tracer)(nil)
)

// newTracer is the tracer of a pool, and in front of it that of a test, if there is one.
func newTracer(o Options) pgx.QueryTracer {
	t := &tracer{log: o.Log, clock: o.Clock}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.clock == nil {
		t.clock = clock.System{}
	}
	if o.Tracer == nil {
		return t
	}
	return multitracer.New(o.Tracer, t)
}

// traced is what is under way. A batch is traced inside of no query and the other way round, so one key does for all.
type traced struct {
	query      string
	start      time.Time
	statements int   // of a batch, so far
	rows       int64 // of a batch, so far
}

type tracedKey struct{}

func (t *tracer) begin(ctx context.Context, query string) context.Context {
	return context.WithValue(ctx, tracedKey{}, &traced{query: query, start: t.clock.Now()})
}

// under is what is under way in ctx; what was not begun here has no name and no beginning.
func (t *tracer) under(ctx context.Context) *traced {
	if at, ok := ctx.Value(tracedKey{}).(*traced); ok {
		return at
	}
	return &traced{query: otherQuery, start: t.clock.Now()}
}

// TraceQueryStart implements pgx.QueryTracer.
func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return t.begin(ctx, queryName(d.SQL))
}

// TraceQueryEnd implements pgx.QueryTracer.
func (t *tracer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, d pgx.TraceQueryEndData) {
	at := t.under(ctx)
	if d.Err != nil && at.query == rollbackQuery && conn.IsClosed() {
		return // the connection took the transaction with it, and what closed it was logged
	}
	t.write(ctx, at, d.Err, slog.Int64("rows", d.CommandTag.RowsAffected()))
}

// TraceBatchStart implements pgx.BatchTracer.
func (t *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return t.begin(ctx, batchQuery)
}

// TraceBatchQuery implements pgx.BatchTracer. The statements of a batch run together: only the batch has a duration.
func (t *tracer) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	at := t.under(ctx)
	at.statements++
	at.rows += d.CommandTag.RowsAffected()
	if d.Err != nil {
		at.query = queryName(d.SQL) // the batch ends with it
	}
}

// TraceBatchEnd implements pgx.BatchTracer.
func (t *tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	at := t.under(ctx)
	t.write(ctx, at, d.Err, slog.Int64("rows", at.rows), slog.Int("statements", at.statements))
}

// TraceCopyFromStart implements pgx.CopyFromTracer.
func (t *tracer) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return t.begin(ctx, copyQuery)
}

// TraceCopyFromEnd implements pgx.CopyFromTracer.
func (t *tracer) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceCopyFromEndData) {
	t.write(ctx, t.under(ctx), d.Err, slog.Int64("rows", d.CommandTag.RowsAffected()))
}

// write writes one line: for what succeeded at debug level, for what failed or was slow as a warning. A request that was
// given up is nobody's fault.
func (t *tracer) write(ctx context.Context, at *traced, err error, counts ...slog.Attr) {
	took := t.clock.Now().Sub(at.start)
	level := slog.LevelDebug
	if took >= slowQuery || err != nil && !errors.Is(err, context.Canceled) {
		level = slog.LevelWarn
	}
	if !t.log.Enabled(ctx, level) {
		return
	}
	attrs := append([]slog.Attr{slog.String("query", at.query), slog.Duration("took", took)}, counts...)
	if err != nil {
		state := SQLState(err)
		if state == "" {
			state = redact.Error(err) // not from Postgres: a connection or a context that ended, an argument that does not fit
		}
		attrs = append(attrs, slog.String("sqlstate", state))
	}
	t.log.LogAttrs(ctx, level, "query", attrs...)
}

// Names of what sqlc did not name.
const (
	batchQuery = "batch"
	copyQuery  = "copy"
	otherQuery = "other"
	// What ends a transaction that failed.
	rollbackQuery = "rollback"
)

// queryMark stands before the name in every generated query.
const queryMark = "-- name: "

// verbs are the statements that are sent without a name.
var verbs = []string{"begin", "commit", rollbackQuery, "savepoint", "release", "select", "insert", "update", "delete", "set"}

// queryName is what sqlc calls a query, or its verb: one of a fixed set of names, whatever the SQL.
func queryName(sql string) string {
	if rest, ok := strings.CutPrefix(sql, queryMark); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	first, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	first = strings.ToLower(first)
	for _, v := range verbs {
		if first == v {
			return v
		}
	}
	return otherQuery
}
