package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

const traceSecret = "s3cr3t/path.go"

// ticking is a clock on which every look takes as long.
type ticking struct {
	*clock.Manual
	step time.Duration
}

func (c ticking) Now() time.Time {
	c.Advance(c.step)
	return c.Manual.Now()
}

// traceLog keeps what a pool logs, at every level.
type traceLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *traceLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// take returns the lines since the last call.
func (l *traceLog) take(t *testing.T) (lines []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NotContains(t, l.buf.String(), "s3cr3t")
	for _, line := range strings.Split(strings.TrimSpace(l.buf.String()), "\n") {
		if line == "" {
			continue
		}
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		delete(m, "time")
		lines = append(lines, m)
	}
	l.buf.Reset()
	return lines
}

func openTraced(t *testing.T, step time.Duration) (*pgxpool.Pool, *traceLog) {
	t.Helper()
	out := &traceLog{}
	pool, err := store.Open(t.Context(), testenv.PostgresURL(t), store.Options{
		MaxConns: 1, // each statement is prepared by then
		Log:      slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Clock:    ticking{clock.NewManual(time.Unix(0, 0)), step},
	})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	out.take(t)
	return pool, out
}

func TestQueriesAreLoggedByName(t *testing.T) {
	t.Parallel()
	pool, out := openTraced(t, 7*time.Millisecond)
	q := dbsqlc.New()
	user := dbsqlc.UserInsertParams{ID: uuid.New(), Handle: "ada", TokenHash: []byte(traceSecret), Privacy: "full", Zone: traceSecret}
	require.NoError(t, q.UserInsert(t.Context(), pool, user))
	require.Equal(t, []map[string]any{{"level": "DEBUG", "msg": "query", "query": "UserInsert", "took": 7e6, "rows": 1.0}}, out.take(t))

	require.NoError(t, store.WithTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `/* `+traceSecret+` */ SELECT 1`)
		return err
	}))
	var names []any
	for _, line := range out.take(t) {
		names = append(names, line["query"])
	}
	require.Equal(t, []any{"begin", "other", "commit"}, names)
}

// What fails with a secret in its arguments is logged, and the secret is not, whoever quotes it: Postgres in its message
// or its detail, or pgx.
func TestFailedQueriesAreLoggedWithoutTheirArguments(t *testing.T) {
	t.Parallel()
	pool, out := openTraced(t, time.Millisecond)
	q := dbsqlc.New()
	_, err := pool.Exec(t.Context(), `CREATE TABLE kept (file text PRIMARY KEY CHECK (file <> '`+traceSecret+`'), n int)`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO kept VALUES ($1)`, traceSecret+"2")
	require.NoError(t, err)
	out.take(t)

	for _, tt := range []struct {
		name, query, state string
		quotes             bool // the error does hold the secret
		run                func() error
	}{
		{"cast", "select", "22P02", true, func() error {
			return pool.QueryRow(t.Context(), `SELECT $1::text::uuid`, traceSecret).Scan(new(uuid.UUID))
		}},
		{"unique", "insert", "23505", false, func() error {
			_, err := pool.Exec(t.Context(), `INSERT INTO kept VALUES ($1)`, traceSecret+"2")
			return err
		}},
		{"check of a named query", "UserInsert", "23514", false, func() error {
			return q.UserInsert(t.Context(), pool, dbsqlc.UserInsertParams{ID: uuid.New(), Handle: traceSecret, TokenHash: []byte{1}, Privacy: "full"})
		}},
		{"argument that does not fit", "update", "…: …: cannot find encode plan", true, func() error {
			_, err := pool.Exec(t.Context(), `UPDATE kept SET n = $1`, struct{ Path string }{traceSecret})
			return err
		}},
		{"batch", "select", "22P02", true, func() error {
			var p store.Pipeline
			_, _ = p.Exec(t.Context(), `INSERT INTO kept VALUES ($1)`, traceSecret+"3")
			_, _ = p.Exec(t.Context(), `SELECT $1::text::int`, traceSecret)
			return p.SendTx(t.Context(), pool)
		}},
		{"copy", "copy", "23514", false, func() error {
			_, err := pool.CopyFrom(t.Context(), pgx.Identifier{"kept"}, []string{"file"}, pgx.CopyFromRows([][]any{{traceSecret}}))
			return err
		}},
		{"given up", "set", "57014", false, func() error {
			_, err := pool.Exec(t.Context(), `SET statement_timeout = 1; SELECT pg_sleep(5), '`+traceSecret+`'`)
			return err
		}},
	} {
		err := tt.run()
		require.Error(t, err, tt.name)
		require.Equal(t, tt.quotes, strings.Contains(err.Error(), "s3cr3t"), "%s: %v", tt.name, err)
		var warned []map[string]any
		for _, line := range out.take(t) {
			if line["level"] == "WARN" {
				warned = append(warned, line)
			}
		}
		require.Len(t, warned, 1, tt.name)
		require.Equal(t, tt.state, warned[0]["sqlstate"], tt.name)
		require.Equal(t, tt.query, warned[0]["query"], tt.name)
	}
}

func TestSlowQueriesAreWarnedOf(t *testing.T) {
	t.Parallel()
	pool, out := openTraced(t, 1500*time.Millisecond)
	_, err := pool.Exec(t.Context(), `SELECT $1::text`, traceSecret)
	require.NoError(t, err)
	require.Equal(t, []map[string]any{{"level": "WARN", "msg": "query", "query": "select", "took": 1.5e9, "rows": 1.0}}, out.take(t))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = pool.Exec(ctx, `SELECT 1`)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, out.take(t), "a request that was given up before it was sent")
}

// A request that is given up in the middle of a transaction closes the connection. That there is nothing left to roll back
// is no news.
func TestRollbackOnAClosedConnectionIsNotLogged(t *testing.T) {
	t.Parallel()
	log := &bytes.Buffer{}
	pool, err := store.Open(t.Context(), testenv.PostgresURL(t), store.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = store.WithTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err := tx.Exec(ctx, `SELECT pg_sleep(30)`)
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, log.String(), "rollback")
}
