// Package redact makes of an error what a log may hold. Errors quote what they are about: Postgres the row that broke a
// constraint, pgx the argument that it could not encode, strconv the text that is no number. Any of these can be a
// user's path.
//
// So the text of an error is never logged as it is. It is rebuilt from what is known to be harmless: an SQLSTATE, the
// first word of what Redis answers, system errors, fixed texts, and the words that we put around them ("store batch: ").
// What is not known is named by its type alone. To log less than there is costs a look at the code; to log more cannot
// be taken back.
package redact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"regexp"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

// unsaid stands for words that are not known to be harmless.
const unsaid = "…: "

// maxDepth bounds how far a chain of errors is followed.
const maxDepth = 32

// Error is err as a log may hold it, "" for nil. It keeps the words around an error, SQLSTATEs, and what network and
// context have to say; values are never in it, nor addresses other than those that we dialed.
func Error(err error) string {
	if err == nil {
		return ""
	}
	return render(err, 0)
}

func render(err error, depth int) string {
	if text, ok := known(err); ok {
		return text
	}
	if depth == maxDepth {
		return typeOf(err)
	}
	if text, ok := wrapped(err, depth+1); ok {
		return text
	}
	if text := err.Error(); isFixed(err) && plain(text) {
		return text
	}
	return typeOf(err)
}

// fixed are values whose texts are not plain by our rule, or whose types tell nothing.
var fixed = []error{context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, redis.Nil}

// known is the text of an error of a kind that we know. Each is asked for by its own type: what it wraps, or what wraps
// it, has its turn.
func known(err error) (string, bool) {
	for _, f := range fixed {
		if err == f { //nolint:errorlint // this one, not one that wraps it
			return f.Error(), true
		}
	}
	switch e := err.(type) { //nolint:errorlint // see above
	case *pgconn.PgError:
		// Severity and code: message, detail, hint and context all quote values.
		return "SQLSTATE " + word(e.Code), true
	case redis.Error:
		// The first word of an answer is its kind: WRONGTYPE, NOSCRIPT, OOM. The rest can quote arguments.
		first, _, _ := strings.Cut(e.Error(), " ")
		return "Redis answered " + word(first), true
	case syscall.Errno:
		return e.Error(), true
	case *net.DNSError:
		return "look up host: not found or no answer", true
	case net.Error:
		if e.Timeout() && errors.Unwrap(err) == nil {
			return "timeout", true
		}
	}
	return "", false
}

// wrapped is the text of an error that holds others.
func wrapped(err error, depth int) (string, bool) {
	switch e := err.(type) { //nolint:errorlint // one layer at a time
	case *pgconn.ConnectError:
		return "connect to Postgres: " + render(e.Unwrap(), depth), true
	case *net.OpError:
		// Its address is the client's, except where it is one that we dialed.
		at := e.Op
		if e.Op == "dial" && e.Addr != nil {
			at += " " + e.Addr.String()
		}
		return at + ": " + render(e.Err, depth), true
	case *os.SyscallError:
		return e.Syscall + ": " + render(e.Err, depth), true
	case interface{ Unwrap() []error }:
		var parts []string
		for _, part := range e.Unwrap() {
			if part != nil {
				parts = append(parts, render(part, depth))
			}
		}
		return strings.Join(parts, "; "), true
	}
	inner := errors.Unwrap(err)
	if inner == nil {
		return "", false
	}
	words, ok := strings.CutSuffix(err.Error(), inner.Error())
	if !ok || !plain(words) {
		words = unsaid
	}
	return words + render(inner, depth), true
}

// plainForm is what we write around errors and into fixed ones. It leaves out whatever quotes a value, and whatever a
// path, an id or a number needs.
var plainForm = regexp.MustCompile(`^[A-Za-z ,:;'()…-]{0,200}$`)

func plain(text string) bool { return plainForm.MatchString(text) }

// fixedType is the type of what errors.New makes.
var fixedType = typeOf(errors.New(""))

// isFixed says whether the error is one that errors.New made, or fmt.Errorf around nothing: nearly always a sentinel.
func isFixed(err error) bool { return typeOf(err) == fixedType }

// typeOf names an error by its type.
func typeOf(err error) string { return fmt.Sprintf("(%T)", err) }

var wordForm = regexp.MustCompile(`^[0-9A-Z]{1,24}$`)

// word is s, if it looks like a code.
func word(s string) string {
	if wordForm.MatchString(s) {
		return s
	}
	return "?"
}

// Attr is a slog.HandlerOptions.ReplaceAttr: it logs errors as Error has them, whoever logs them, and names values that are
// neither texts, numbers, times nor ids by their type alone. It is the one place through which whatever a process logs must go.
func Attr(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindAny {
		return a
	}
	switch v := a.Value.Any().(type) {
	case error:
		return slog.String(a.Key, Error(v))
	case nil, slog.Level, *slog.Source:
		return a
	case uuid.UUID:
		return slog.String(a.Key, v.String())
	}
	switch v := reflect.ValueOf(a.Value.Any()); v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64, reflect.String:
		return a // a name of a kind, a day: as much as a plain text or number
	}
	return slog.String(a.Key, fmt.Sprintf("(%T)", a.Value.Any()))
}
