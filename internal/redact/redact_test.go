package redact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
)

// secret has no character that would give it away.
const secret = "hunter"

type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

func pgError() error {
	return &pgconn.PgError{
		Severity: "ERROR", Code: "23514", Message: "new row violates check " + secret, Detail: "Failing row contains (" + secret + ").",
		Hint: secret, Where: "COPY events, line 1: " + secret, InternalQuery: secret, ConstraintName: secret,
	}
}

func numError() error {
	_, err := strconv.ParseInt(secret, 10, 64)
	return err
}

func jsonError() error {
	var v struct{ N int }
	return json.Unmarshal([]byte(`{"n":"`+secret+`"}`), &v)
}

func TestError(t *testing.T) {
	t.Parallel()
	client := &net.TCPAddr{IP: net.IPv4(203, 0, 113, 9), Port: 4711}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{pgError(), "SQLSTATE 23514"},
		{fmt.Errorf("store batch: %w", fmt.Errorf("send pipeline: %w", pgError())), "store batch: send pipeline: SQLSTATE 23514"},
		{errors.Join(pgError(), fmt.Errorf("roll back: %w", io.EOF)), "SQLSTATE 23514; roll back: EOF"},
		{fmt.Errorf("%w: %w", errors.New("gave up"), pgError()), "gave up; SQLSTATE 23514"},
		// pgx, when an argument does not fit its column.
		{fmt.Errorf("failed to encode args[0]: %w", fmt.Errorf("unable to encode %#v into binary format for int4 (OID 23): %w",
			secret, errors.New("cannot find encode plan"))), "…: …: cannot find encode plan"},
		{fmt.Errorf("read file %q: %w", secret, io.EOF), "…: EOF"},
		{errors.New("no such user \"" + secret + "\""), "(*errors.errorString)"},
		{redisError("WRONGTYPE Operation against " + secret), "Redis answered WRONGTYPE"},
		{redisError(secret), "Redis answered ?"},
		{redis.Nil, "redis: nil"},
		{fmt.Errorf("get mode: %w", redis.ErrClosed), "get mode: redis: client is closed"},
		{numError(), "…: invalid syntax"},
		{jsonError(), "(*json.UnmarshalTypeError)"},
		{&net.DNSError{Name: secret, Err: "no such host"}, "look up host: not found or no answer"},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: client, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
			"dial 203.0.113.9:4711: connect: connection refused"},
		{&net.OpError{Op: "read", Net: "tcp", Source: client, Addr: client, Err: os.ErrDeadlineExceeded}, "read: timeout"},
		{context.DeadlineExceeded, "context deadline exceeded"},
		{fmt.Errorf("commit: %w", context.Canceled), "commit: context canceled"},
	} {
		got := Error(tt.err)
		require.Equal(t, tt.want, got)
		require.NotContains(t, got, secret)
	}
}

// A chain that has no end is cut off.
func TestErrorIsBounded(t *testing.T) {
	t.Parallel()
	err := io.EOF
	for range 10_000 {
		err = fmt.Errorf("again: %w", err)
	}
	require.Equal(t, strings.Repeat("again: ", maxDepth)+"(*fmt.wrapError)", Error(err))
}

func TestAttr(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(io.Writer, *slog.HandlerOptions) slog.Handler{
		"text": func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewTextHandler(w, o) },
		"json": func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewJSONHandler(w, o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log := slog.New(handler(&out, &slog.HandlerOptions{ReplaceAttr: Attr, AddSource: true}))
			log.With("err", pgError()).WithGroup("g").Warn("failed", slog.Group("inner", slog.Any("why", pgError())),
				"body", []byte(secret), "row", struct{ File string }{secret}, "n", 7, "nothing", nil, "user_id", uuid.Max, "period", calendar.PeriodWeek, "day", calendar.Date(2026, 6, 15))
			require.NotContains(t, out.String(), secret)
			require.Equal(t, 2, strings.Count(out.String(), "SQLSTATE 23514"), out.String())
			require.Contains(t, out.String(), "WARN")
			require.Contains(t, out.String(), "redact_test.go")
			require.Contains(t, out.String(), "([]uint8)")
			require.Contains(t, out.String(), uuid.Max.String())
			require.Contains(t, out.String(), "week")
			require.Contains(t, out.String(), "2026-06-15")
		})
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	token := "cmm_" + strings.Repeat("aB3-_", 12)
	for in, want := range map[string]string{
		"unexpected argument " + token:                       "unexpected argument cmm_…",
		"dial postgres://ada:hunter@db:5432/x?a=b: refused":  "dial postgres://ada:…@db:5432/x?a=b: refused",
		"redis://:hunter@cache:6379/0":                       "redis://:…@cache:6379/0",
		"http://127.0.0.1:8080/v1 and http://h/a:b@c: fine":  "http://127.0.0.1:8080/v1 and http://h/a:b@c: fine",
		"the handle is taken (choose another): run migrate!": "the handle is taken (choose another): run migrate!",
	} {
		require.Equal(t, want, Secrets(in))
		var out bytes.Buffer
		n, err := Writer(&out).Write([]byte(in))
		require.NoError(t, err)
		require.Equal(t, len(in), n)
		require.Equal(t, want, out.String())
	}
	err := fmt.Errorf("create user \"x\": %w", errors.Join(pgError(), redisError("ERR "+token)))
	require.Equal(t, "create user \"x\": SQLSTATE 23514\nRedis answered ERR", Terminal(err))

	// What pgx cannot encode or decode is data; what the user typed stays.
	plan := fmt.Errorf("failed to encode args[0]: %w", fmt.Errorf("unable to encode %#v into binary format for int4 (OID 23): %w",
		secret, errors.New("cannot find encode plan")))
	require.Equal(t, "create user \"x\": …: …: cannot find encode plan", Terminal(fmt.Errorf("create user \"x\": %w", plan)))
	_, real := pgtype.NewMap().Encode(pgtype.Int4OID, pgtype.BinaryFormatCode, secret, nil)
	require.ErrorContains(t, real, secret, "pgx says it otherwise now")
	require.NotContains(t, Terminal(fmt.Errorf("create user \"x\": %w", real)), secret)
	scan := pgx.ScanArgError{FieldName: "file", Err: fmt.Errorf("parse %q: %w", secret, errors.New("no"))}
	require.NotContains(t, Terminal(fmt.Errorf("read user \"x\": %w", scan)), secret)
	require.Equal(t, "parse --shift-weeks: strconv.ParseInt: parsing \"hunter\": invalid syntax", Terminal(fmt.Errorf("parse --shift-weeks: %w", numError())))
}
