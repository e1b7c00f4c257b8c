package httpapi

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/leaderboard"
)

func accept(coding string) option { return withHeader("Accept-Encoding", coding) }

// onBoard is a board of so many.
func onBoard(n int) *fake {
	return &fake{page: func(b leaderboard.Board, _ leaderboard.Query) (leaderboard.Page, error) {
		p := leaderboard.Page{Board: b, UpdatedAt: testNow}
		for i := range n {
			p.Entries = append(p.Entries, leaderboard.Entry{Handle: "user-" + strconv.Itoa(i), Seconds: int64(n - i), Rank: int64(i + 1)})
		}
		return p, nil
	}}
}

func gunzip(t *testing.T, body string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(body))
	require.NoError(t, err)
	plain, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(plain)
}

// It calls the server itself: what is compressed cannot be held against the contract.
func TestAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	b := setup(t, onBoard(100))
	plain := b.call(t, http.MethodGet, "/v1/leaderboard", "")
	require.Empty(t, plain.header.Get("Content-Encoding"))
	require.Contains(t, plain.header.Values("Vary"), "Accept-Encoding", "also where it is not: a cache must know")
	for coding, compressed := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "gzip, deflate, br, zstd": true,
		"gzip;q=0": false, "br": false, "identity": false,
	} {
		got := b.raw(t, "/v1/leaderboard", accept(coding))
		require.Equal(t, plain.header.Get("ETag"), got.header.Get("ETag"))
		if !compressed {
			require.Empty(t, got.header.Get("Content-Encoding"), coding)
			require.Equal(t, plain.body, got.body)
			continue
		}
		require.Equal(t, "gzip", got.header.Get("Content-Encoding"), coding)
		require.Empty(t, got.header.Get("Content-Length"))
		require.Less(t, len(got.body), len(plain.body)/3)
		require.Equal(t, plain.body, gunzip(t, got.body))
	}
	got := b.raw(t, "/v1/leaderboard", accept("gzip"), ifNoneMatch(plain.header.Get("ETag")))
	require.Equal(t, http.StatusNotModified, got.status)
	require.Empty(t, got.body)
	require.Empty(t, got.header.Get("Content-Encoding"))
}

func TestSmallAnswersAreNot(t *testing.T) {
	t.Parallel()
	b := setup(t, onBoard(1))
	for path, status := range map[string]int{"/v1/leaderboard": 200, "/v1/leaderboard?period=x": 400, "/nowhere": 404} {
		got := b.raw(t, path, accept("gzip"))
		require.Equal(t, status, got.status)
		require.Empty(t, got.header.Get("Content-Encoding"), path)
		require.Equal(t, strconv.Itoa(len(got.body)), got.header.Get("Content-Length"), path)
	}
}

// stream has the server answer a line, wait, and end as end does.
func (r running) stream(t *testing.T, end func() error) (body io.Reader, goOn chan<- struct{}) {
	t.Helper()
	next := make(chan struct{})
	r.echo.GET("/stream", func(c echo.Context) error {
		c.Response().WriteHeader(http.StatusOK)
		_, _ = io.WriteString(c.Response(), "first\n")
		c.Response().Flush()
		<-next
		_, _ = io.WriteString(c.Response(), "second\n")
		return end()
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.address+"/stream", nil)
	require.NoError(t, err)
	req.Header.Set("Accept-Encoding", "gzip")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
	return res.Body, next
}

// What is flushed arrives, compressed or not.
func TestStreamsAreCompressedAsTheyCome(t *testing.T) {
	t.Parallel()
	body, goOn := serve(t, &fake{}, Config{}).stream(t, func() error { return nil })
	unzip, err := gzip.NewReader(body)
	require.NoError(t, err)
	lines := bufio.NewReader(unzip)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", line, "it is here before the handler goes on")
	close(goOn)
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Equal(t, "second\n", string(rest))
}

// A stream that fails must not look like one that ended.
func TestStreamsThatFailAreCutOff(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{}, Config{})
	body, goOn := r.stream(t, func() error { return errors.New("lost") })
	close(goOn)
	_, err := io.ReadAll(body)
	require.Error(t, err)
	require.Eventually(t, func() bool { return strings.Contains(r.logs.String(), `"msg":"request"`) }, patience, patience/1000)
	require.Contains(t, r.logs.String(), `"err":"lost"`)
}
