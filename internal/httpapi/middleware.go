package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/ingest"
)

// headerRequestID names a request to its sender and in the log. It is always ours: one that a client sends is ignored,
// since it would be the client's text in our log.
const headerRequestID = "X-Request-Id"

// observe names the request, turns panics and errors into answers, then writes the access log and the metrics, which so
// see the status that was really sent. It runs inside of deadline: there a cancelled context still means that the client
// has gone, and not that the handler has returned.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := s.deps.Clock.Now()
		h := c.Response().Header()
		h.Set(headerRequestID, uuid.NewString())
		h.Set(echo.HeaderXContentTypeOptions, "nosniff")
		h.Set(echo.HeaderCacheControl, cacheNever)
		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()

		err := recovered(next, c)
		begun := c.Response().Committed
		if err != nil {
			if errors.Is(err, ingest.ErrBodyTooLarge) {
				refuseEarly(c)
				defer drain(c) // last, so that the request does not seem to have taken as long as its sender
			}
			s.answerError(err, c)
		}
		s.record(c, s.deps.Clock.Now().Sub(start))
		if err != nil && begun {
			// An answer that was streamed, and failed, would otherwise end as if it were whole.
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

func (s *Server) record(c echo.Context, took time.Duration) {
	method, route, status := knownMethod(c.Request().Method), s.route(c), c.Response().Status
	s.metrics.observe(route, method, status, took)
	// Neither path nor query, agent nor address: see the package comment.
	level := slog.LevelInfo
	if !strings.HasPrefix(route, "/v1/") && status < http.StatusInternalServerError {
		level = slog.LevelDebug // probes and scrapes would drown the rest
	}
	s.deps.Logger.LogAttrs(c.Request().Context(), level, "request",
		slog.String("method", method),
		slog.String("route", route),
		slog.Int("status", status),
		slog.Duration("took", took),
		slog.String("request_id", requestID(c)))
}

// route is the pattern of the route that was taken, never the path that was asked for.
func (s *Server) route(c echo.Context) string {
	if p := c.Path(); s.routes[p] {
		return p
	}
	return "unmatched"
}

// knownMethod is the method if it is one of HTTP's own. A method is free text: others would make a metric series each.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}

func requestID(c echo.Context) string { return c.Response().Header().Get(headerRequestID) }

// deadline ends the context of every request in time for an answer that the client still waits for; of a stream, when it
// has had time enough.
func (s *Server) deadline(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, timeout := c.Request(), s.cfg.RequestTimeout
		if streams[c.Path()] {
			timeout = s.cfg.StreamTimeout
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		c.SetRequest(r.WithContext(ctx))
		return next(c)
	}
}

// panicError is a panic of a handler. It does not hold the value, which can be anything the handler had in hand.
type panicError struct {
	what  string
	stack []byte
}

func (e *panicError) Error() string { return "panic: " + e.what }

// recovered calls a handler and turns its panic into an error.
func recovered(h echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { //nolint:errorlint // it is a value to compare with, by its documentation
			panic(v)
		}
		what := fmt.Sprintf("%T", v)
		if re, ok := v.(runtime.Error); ok {
			what = re.Error() // written by the runtime: indices and types, no data
		}
		err = &panicError{what: what, stack: debug.Stack()}
	}()
	return h(c)
}

// serverErrorLog passes on what net/http has to say about the listener. The rest of what it prints is about single
// connections, with addresses in it.
func serverErrorLog(l *slog.Logger) *log.Logger {
	return log.New(acceptErrors{l}, "", 0)
}

type acceptErrors struct{ log *slog.Logger }

func (w acceptErrors) Write(p []byte) (int, error) {
	if line := strings.TrimSpace(string(p)); strings.HasPrefix(line, "http: Accept error") {
		w.log.Warn("accept connections", "err", line)
	}
	return len(p), nil
}
