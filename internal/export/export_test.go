package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var now = clock.NewManual(time.Date(2026, 6, 17, 9, 30, 0, 0, time.UTC))

// numbers tells so many rows.
func numbers(n int) export.SourceFunc {
	return func(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
		return export.Rows(ctx, tx, userID, emit, export.Table{
			Name: "numbers", SQL: fmt.Sprintf(`SELECT jsonb_build_object('n', n, 'user', $1::uuid) FROM generate_series(1, %d) n`, n),
		})
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	e := export.New(testenv.Postgres(t), now, export.Config{}, numbers(1), numbers(2))
	var out bytes.Buffer
	id := uuid.New()
	require.NoError(t, e.Export(t.Context(), id, &out))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 5)
	require.JSONEq(t, `{"export":{"format":1,"at":"2026-06-17T09:30:00Z"}}`, lines[0])
	require.JSONEq(t, `{"table":"numbers","row":{"n":2,"user":"`+id.String()+`"}}`, lines[3])
	require.JSONEq(t, `{"end":{"rows":3}}`, lines[4])
	for _, l := range lines {
		require.True(t, json.Valid([]byte(l)), l)
	}
}

// Rows go out while others are still to be read, so that no export needs memory for all of them.
func TestExportStreams(t *testing.T) {
	t.Parallel()
	var last int
	counting := func(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
		return numbers(100_000)(ctx, tx, userID, func(table string, row []byte) error {
			last++
			return emit(table, row)
		})
	}
	seen := 0
	err := export.New(testenv.Postgres(t), now, export.Config{}, counting).Export(t.Context(), uuid.New(), writer(func(p []byte) error {
		require.LessOrEqual(t, len(p), 64<<10)
		seen = last
		return errors.New("gone")
	}))
	require.ErrorContains(t, err, "gone")
	require.Less(t, seen, 10_000, "the first bytes did not wait for the last row")
	require.Less(t, last, 10_000, "and nothing is read for who has gone")
}

type writer func(p []byte) error

func (w writer) Write(p []byte) (int, error) {
	if err := w(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func TestExportsAreFew(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	waiting := func(context.Context, pgx.Tx, uuid.UUID, export.EmitFunc) error {
		entered <- struct{}{}
		<-leave
		return nil
	}
	e := export.New(testenv.Postgres(t), now, export.Config{Slots: 2}, waiting)
	one, two := uuid.New(), uuid.New()
	done := make(chan error, 2)
	for _, id := range []uuid.UUID{one, two} {
		go func() { done <- e.Export(t.Context(), id, io.Discard) }()
		<-entered
		require.ErrorIs(t, e.Export(t.Context(), id, io.Discard), export.ErrBusy, "one of a user")
	}
	require.ErrorIs(t, e.Export(t.Context(), uuid.New(), io.Discard), export.ErrBusy, "as many as there are slots")
	close(leave)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	go func() { <-entered }()
	require.NoError(t, e.Export(t.Context(), one, io.Discard), "and then again")
}

func TestExportThatFailsAtOnceWritesNothing(t *testing.T) {
	t.Parallel()
	planted := errors.New("planted")
	e := export.New(testenv.Postgres(t), now, export.Config{}, func(context.Context, pgx.Tx, uuid.UUID, export.EmitFunc) error { return planted })
	var out bytes.Buffer
	require.ErrorIs(t, e.Export(t.Context(), uuid.New(), &out), planted)
	require.Zero(t, out.Len())
}
