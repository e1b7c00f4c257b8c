package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/sessions"
)

// upload is a connection on which an upload has begun.
type upload struct {
	net.Conn
	in *bufio.Reader
}

func (r running) upload(t *testing.T, header string) upload {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(clock.System{}.Now().Add(patience)))
	u := upload{conn, bufio.NewReader(conn)}
	u.send(t, fmt.Sprintf("POST /v1/ingest HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", goodToken, header))
	return u
}

func (u upload) send(t *testing.T, s string) {
	t.Helper()
	_, err := io.WriteString(u, s)
	require.NoError(t, err)
}

func (u upload) answer(t *testing.T) reply {
	t.Helper()
	res, err := http.ReadResponse(u.in, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return reply{res.StatusCode, res.Header, string(body)}
}

// After a 503 clients send the same again, after a 400 they do not. The texts are those of net/http: a new release that
// changes them must fail here.
func TestMisframedBodies(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{}, Config{})
	for name, body := range map[string]string{
		"no length":              "zz\r\n",
		"empty length":           "\r\n\r\n",
		"too long a length":      "fffffffffffffffff\r\n",
		"longer than it says":    "2\r\n{}x\r\n0\r\n\r\n",
		"bare line feed":         "2\n{}\n0\n\n",
		"carriage return inside": "2\rx\r\n{}\r\n",
		"too long a line":        "2;" + strings.Repeat("x", 8<<10) + "\r\n{}\r\n",
		"mostly extensions":      strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\n \r\n", 100),
		"broken trailer":         "2\r\n{}\r\n0\r\nno colon\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := r.upload(t, "Transfer-Encoding: chunked")
			u.send(t, body)
			u.answer(t).requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
		})
	}
}

// What ends too early may have been cut by the network: never a 400.
func TestBodiesThatAreCut(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{}, Config{})
	for name, sent := range map[string][2]string{
		"within a chunk":  {"Transfer-Encoding: chunked", "ff\r\n{"},
		"after a chunk":   {"Transfer-Encoding: chunked", "2\r\n{}\r\n"},
		"within a length": {"Transfer-Encoding: chunked", "f"},
		"within a CRLF":   {"Transfer-Encoding: chunked", "2\r\n{}\r"},
		"without chunks":  {"Content-Length: 100", "{"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := r.upload(t, sent[0])
			u.send(t, sent[1])
			require.NoError(t, u.Conn.(*net.TCPConn).CloseWrite())
			u.answer(t).requireError(t, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable)
		})
	}
}

// Who says that the body is too large is answered before a byte of it was sent, and then may send it, be it for nothing.
func TestTooLargeIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{}, Config{})
	for _, size := range []int{2 << 20, maxDrain} {
		// It must be whole while the upload still comes, also for who would have it compressed.
		u := r.upload(t, fmt.Sprintf("Accept-Encoding: gzip\r\nContent-Length: %d", size))
		u.answer(t).requireError(t, http.StatusRequestEntityTooLarge, api.ErrorCodePayloadTooLarge)
		u.send(t, strings.Repeat(" ", size))
		u.send(t, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		require.Equal(t, http.StatusOK, u.answer(t).status, "the connection is still good")
	}
	for header, begin := range map[string]string{
		"Content-Length: 1000000000000":                           "",
		"Content-Length: 1000000000000\r\nContent-Encoding: gzip": "",
		"Transfer-Encoding: chunked":                              fmt.Sprintf("%x\r\n%s\r\n", 1<<20+1, strings.Repeat(" ", 1<<20+1)),
	} {
		u := r.upload(t, header)
		u.send(t, begin)
		u.answer(t).requireError(t, http.StatusRequestEntityTooLarge, api.ErrorCodePayloadTooLarge)
	}
}

// An answer is never much larger than its request.
func TestAnswersAreNotEscapedForHTML(t *testing.T) {
	t.Parallel()
	nasty := strings.Repeat("<", 64)
	b := setup(t, &fake{get: func(uuid.UUID) (*sessions.Detail, error) {
		return &sessions.Detail{Files: []sessions.File{{Path: nasty}}}, nil
	}})
	got := b.call(t, http.MethodGet, "/v1/sessions/"+uuid.NewString(), "", signedIn())
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, nasty)
	require.Equal(t, byte('}'), got.body[len(got.body)-1])
	require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
}
