package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/ingest"
)

// patience bounds waits that normally take milliseconds.
const patience = 10 * time.Second

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := New(Deps{}, Config{})
	require.ErrorContains(t, err, "is missing")

	b := setup(t, &fake{})
	_, err = New(b.deps, Config{})
	var twice prometheus.AlreadyRegisteredError
	require.ErrorAs(t, err, &twice)
}

type running struct {
	bundle
	address string
	stop    context.CancelFunc
	done    chan error
}

// serve runs the server on a real listener until the test ends.
func serve(t *testing.T, f *fake, cfg Config) running {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	r := running{bundle: setupWith(t, f, cfg), address: l.Addr().String(), stop: stop, done: make(chan error, 1)}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.done <- r.Serve(ctx, l)
	}()
	t.Cleanup(func() {
		stop()
		<-stopped
	})
	return r
}

func (r running) get(t *testing.T, path string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.address+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+goodToken)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func (r running) requireStopped(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		require.FailNow(t, "the server did not stop")
		return nil
	}
}

// TestHeadIsGetWithoutTheBody, also on a connection that goes on to be used.
func TestHeadIsGetWithoutTheBody(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{}, Config{})
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	headers := map[string]http.Header{}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.address+"/v1/leaderboard", nil)
		require.NoError(t, err)
		res, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, method == http.MethodHead, len(body) == 0)
		require.NotEmpty(t, res.Header.Get("ETag"))
		res.Header.Del("Date")
		res.Header.Del("X-Request-Id")
		headers[method] = res.Header
	}
	require.Equal(t, headers[http.MethodGet], headers[http.MethodHead])
}

func TestServeDrains(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	r := serve(t, &fake{me: func() (account.Facts, error) {
		close(entered)
		<-release
		return demoFacts(), nil
	}}, Config{})
	answered := make(chan int, 1)
	go func() {
		status, _ := r.get(t, "/v1/me")
		answered <- status
	}()
	<-entered
	r.stop()
	require.Eventually(t, func() bool { // it stops listening at once
		_, err := r.get(t, "/health")
		return err != nil
	}, patience, time.Millisecond)
	select {
	case err := <-r.done:
		require.FailNow(t, "stopped while a request was under way", "%v", err)
	default:
	}
	close(release)
	require.NoError(t, r.requireStopped(t))
	require.Equal(t, http.StatusOK, <-answered)
}

// A request that does not end is cancelled, and Serve still waits for its handler.
func TestServeCancelsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan struct{})
	r := serve(t, &fake{store: func(ctx context.Context, _ *ingest.Batch) (ingest.Stored, error) {
		close(entered)
		<-ctx.Done()
		close(left)
		return ingest.Stored{}, ctx.Err()
	}}, Config{DrainTimeout: 20 * time.Millisecond, IngestTimeout: time.Hour, RequestTimeout: time.Hour})
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address+"/v1/ingest", strings.NewReader(events(1, 0)))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+goodToken)
		if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-entered
	r.stop()
	require.ErrorIs(t, r.requireStopped(t), context.DeadlineExceeded)
	select {
	case <-left:
	default:
		require.FailNow(t, "stopped before the handler had ended")
	}
}

type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, errors.New("no more files") }

func TestServeReportsABrokenListener(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorContains(t, setup(t, &fake{}).Serve(t.Context(), brokenListener{l}), "no more files")
}

// The answer to what is too large must reach a client that is still sending, and one that was refused must be able to
// go on over the same connection.
func TestIngestOverARealConnection(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{}, Config{})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(clock.System{}.Now().Add(patience)))
	in := bufio.NewReader(conn)
	for _, step := range []struct {
		token, body string
		status      int
	}{
		{"wrong", events(10, 0), http.StatusUnauthorized},
		{goodToken, `{"x":"` + strings.Repeat("x", 3<<20) + `"}`, http.StatusRequestEntityTooLarge},
		{goodToken, events(10, 0), http.StatusAccepted},
	} {
		_, err := fmt.Fprintf(conn, "POST /v1/ingest HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
			step.token, len(step.body), step.body)
		require.NoError(t, err)
		res, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		require.Equal(t, step.status, res.StatusCode)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
}

func TestServerErrorLogSpeaksOfTheListenerOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	l := serverErrorLog(b.deps.Logger)
	l.Printf("http: TLS handshake error from 203.0.113.7:1234: EOF")
	require.Empty(t, b.logs.String())
	l.Printf("http: Accept error: too many open files; retrying in 5ms")
	require.Contains(t, b.logs.String(), "too many open files")
}
