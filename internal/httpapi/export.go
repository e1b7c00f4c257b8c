package httpapi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redact"
)

// Exporter writes everything that is stored about a user. When it fails with a domain's error it has written nothing.
type Exporter interface {
	Export(ctx context.Context, userID uuid.UUID, w io.Writer) error
}

// mimeLines is JSON, one value per line.
const mimeLines = "application/x-ndjson"

// streams are the routes whose answers go out as they are made, for as long as that takes: they are bounded by StreamTimeout,
// and each part of theirs by streamWait.
var streams = map[string]bool{"/v1/me/export": true, "/v1/recaps": true}

// streamWait is how long a reader of a stream may take for one part of it.
const streamWait = 10 * time.Second

// ExportMe streams everything that is stored about the signed-in user.
func (h *handlers) ExportMe(c echo.Context) error {
	grant, err := h.admitStream(c, admission.ScopeRead)
	if err != nil {
		return err
	}
	return h.stream(c, mimeLines, func(ctx context.Context, w *streamWriter) error { return h.Exports.Export(ctx, grant.UserID, w) })
}

// admitStream is admit for a stream, in the time that any other request has for it.
func (h *handlers) admitStream(c echo.Context, scope admission.Scope) (admission.Grant, error) {
	r := c.Request()
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.RequestTimeout)
	defer cancel()
	c.SetRequest(r.WithContext(ctx))
	defer c.SetRequest(r)
	return h.admit(c, scope)
}

// stream answers with what write writes. A failure before the first byte is answered like any other; after it there is
// nothing left but to cut the connection, so that nobody takes a part for the whole. Whoever waits for a part waits no
// longer than for the answer to another request: a dependency that hangs ends it. Whoever makes progress without a part to
// write says so.
func (h *handlers) stream(c echo.Context, mime string, write func(ctx context.Context, w *streamWriter) error) error {
	ctx, cancel := context.WithCancelCause(c.Request().Context())
	defer cancel(nil)
	w := &streamWriter{c: c, ctx: ctx, mime: mime, conn: http.NewResponseController(c.Response()), wait: h.cfg.RequestTimeout}
	w.stalled = time.AfterFunc(w.wait, func() { cancel(context.DeadlineExceeded) })
	defer w.stalled.Stop()
	// The end of the server's timeout for reading would pass for the end of the client. There is no body to wait for.
	_ = w.conn.SetReadDeadline(time.Time{}) // a response that has no deadlines needs none
	err := write(ctx, w)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("stream: %w", cause)
	}
	if !c.Response().Committed {
		return err
	}
	h.Logger.LogAttrs(c.Request().Context(), slog.LevelWarn, "stream was cut short",
		slog.String("err", redact.Error(err)), slog.String("request_id", requestID(c)))
	panic(http.ErrAbortHandler)
}

// streamWriter sends each part at once, and gives its reader a bounded time for it.
type streamWriter struct {
	c       echo.Context
	ctx     context.Context
	mime    string
	conn    *http.ResponseController
	wait    time.Duration // for the next part
	stalled *time.Timer
}

// progress says that nothing hangs though nothing was written: the wait begins anew. It fails when the stream is over.
func (w *streamWriter) progress() error {
	if w.stalled.Stop() {
		w.stalled.Reset(w.wait)
	}
	return w.ctx.Err()
}

// Write implements io.Writer.
func (w *streamWriter) Write(p []byte) (int, error) {
	w.stalled.Stop()
	defer w.stalled.Reset(w.wait)
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	res := w.c.Response()
	if !res.Committed {
		res.Header().Set(echo.HeaderContentType, w.mime)
		res.WriteHeader(http.StatusOK)
	}
	// Connections end by the operating system's clock, whatever the service takes for the time.
	_ = w.conn.SetWriteDeadline(clock.System{}.Now().Add(streamWait))
	n, err := res.Write(p)
	if err != nil {
		return n, err
	}
	res.Flush()
	return n, nil
}
