package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
)

var testNow = time.Date(2026, 6, 17, 12, 0, 0, 0, time.UTC)

// fakeAPI stores what is posted to it, and answers as told.
type fakeAPI struct {
	*httptest.Server
	mu     sync.Mutex
	posts  []post
	answer func(n int, p post) (status int, header, body string) // of the nth post, from 0; status 0: accept
}

type post struct {
	token  string
	events []map[string]any
}

func newFakeAPI(t *testing.T, answer func(n int, p post) (int, string, string)) *fakeAPI {
	t.Helper()
	f := &fakeAPI{answer: answer}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var body struct{ Events []map[string]any }
	if r.Method != http.MethodPost || r.URL.Path != "/v1/ingest" || json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p := post{strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), body.Events}
	status, header, text := 0, "", ""
	if f.answer != nil {
		status, header, text = f.answer(len(f.posts), p)
	}
	f.posts = append(f.posts, p)
	if status == -1 {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	if header != "" {
		name, value, _ := strings.Cut(header, ": ")
		w.Header().Set(name, value)
	}
	if status == 0 {
		status, text = http.StatusAccepted, fmt.Sprintf(`{"received":%d,"duplicate":0,"rejected":[],"rejected_total":0}`, len(p.events))
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func (f *fakeAPI) sizes() []int {
	sizes := make([]int, len(f.posts))
	for i, p := range f.posts {
		sizes[i] = len(p.events)
	}
	return sizes
}

// recorder is a Sleep that only notes for how long, and moves the clock.
type recorder struct {
	mu    sync.Mutex
	clock *clock.Manual
	slept []time.Duration
}

func (r *recorder) sleep(ctx context.Context, d time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slept = append(r.slept, d)
	r.clock.Advance(d)
	return ctx.Err()
}

func setup(t *testing.T, answer func(n int, p post) (int, string, string)) (*fakeAPI, *recorder, Config) {
	t.Helper()
	api := newFakeAPI(t, answer)
	rec := &recorder{clock: clock.NewManual(testNow)}
	return api, rec, Config{URL: api.URL + "/", Tokens: OneToken("tok"), Clock: rec.clock, Sleep: rec.sleep}
}

// jsonl is n events of each user, one minute apart, the last of them at last; users take turns in the file.
func jsonl(n int, last time.Time, users ...string) string {
	var b strings.Builder
	for i := range n {
		for _, u := range users {
			fmt.Fprintf(&b, `{"user":%q,"id":%q,"ts":%d,"keystrokes":%d,"lines":-1,"lang":"Go","file":null,"other":1}`+"\n",
				u, uuid.NewSHA1(uuid.Nil, []byte(u+fmt.Sprint(i))), last.Add(time.Duration(i-n+1)*time.Minute).UnixMilli(), i)
		}
	}
	return b.String()
}

func mustLoad(t *testing.T, text string) *File {
	t.Helper()
	f, err := Load(strings.NewReader(text), int64(len(text)))
	require.NoError(t, err)
	return f
}

func TestRunUploadsPerUserInOrder(t *testing.T) {
	t.Parallel()
	api, _, cfg := setup(t, nil)
	tokens, err := ParseTokens(strings.NewReader(`{"u1":"t1","u2":"t2"}`))
	require.NoError(t, err)
	cfg.Tokens, cfg.BatchSize = tokens, 4
	f := mustLoad(t, jsonl(10, testNow, "u1", "u2"))
	require.Equal(t, []string{"u1", "u2"}, f.Users())
	sum, err := Run(t.Context(), f, cfg)
	require.NoError(t, err)
	require.Equal(t, Summary{Users: 2, Events: 20, Sent: 20, Received: 20, Requests: 6, Rejected: map[string]int{}}, sum)
	next := map[string]int{}
	for _, p := range api.posts {
		for _, e := range p.events {
			require.Equal(t, map[string]any{ // as in the file, without user and what is not an event's
				"id": uuid.NewSHA1(uuid.Nil, []byte("u"+p.token[1:]+fmt.Sprint(next[p.token]))).String(),
				"ts": float64(testNow.Add(time.Duration(next[p.token]-9) * time.Minute).UnixMilli()), "keystrokes": float64(next[p.token]),
				"lines": float64(-1), "lang": "Go", "file": nil,
			}, e)
			next[p.token]++
		}
	}
	require.Equal(t, map[string]int{"t1": 10, "t2": 10}, next)
}

func TestRunShuffles(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (ids []any, sizes []int) {
		api, _, cfg := setup(t, nil)
		cfg.Shuffle, cfg.Seed, cfg.BatchSize, cfg.Parallel = true, seed, 20, 1
		sum, err := Run(t.Context(), mustLoad(t, jsonl(200, testNow, "u")), cfg)
		require.NoError(t, err)
		require.Equal(t, 200, sum.Received)
		for _, p := range api.posts {
			require.LessOrEqual(t, len(p.events), 20)
			for _, e := range p.events {
				ids = append(ids, e["id"])
			}
		}
		return ids, api.sizes()
	}
	ids, sizes := run(1)
	again, sizesAgain := run(1)
	require.Equal(t, ids, again)
	require.Equal(t, sizes, sizesAgain)
	other, _ := run(2)
	require.NotEqual(t, ids, other)
	require.ElementsMatch(t, ids, other)
	require.Greater(t, len(sizes), 10, "batches of random sizes")
}

func TestRunHalvesTooLargeBatches(t *testing.T) {
	t.Parallel()
	api, rec, cfg := setup(t, func(_ int, p post) (int, string, string) {
		for _, e := range p.events {
			if e["keystrokes"] == 6.0 {
				return http.StatusRequestEntityTooLarge, "", ""
			}
		}
		return 0, "", ""
	})
	cfg.BatchSize = 8
	sum, err := Run(t.Context(), mustLoad(t, jsonl(20, testNow, "u")), cfg)
	require.NoError(t, err)
	// 8 events hold the bad one; so do the 2 after the first 6; refused alone, it is left out, and batches are whole again.
	require.Equal(t, []int{8, 4, 4, 2, 2, 1, 8, 5}, api.sizes())
	require.Equal(t, 1, sum.TooLarge)
	require.Equal(t, 19, sum.Received)
	require.Equal(t, 19, sum.Sent)
	require.Empty(t, rec.slept, "halves at once")
}

func TestRunWaitsAsLongAsAsked(t *testing.T) {
	t.Parallel()
	_, rec, cfg := setup(t, func(n int, _ post) (int, string, string) {
		switch n {
		case 0:
			return 429, "Retry-After: 90", ""
		case 1:
			return 503, "Retry-After: " + testNow.Add(5*time.Minute).Format(http.TimeFormat), "" // the clock moved by 90 s
		case 2:
			return 429, "Retry-After: 99999999", ""
		}
		return 0, "", ""
	})
	cfg.Attempts = 1 // waiting because the server asks for it uses up no attempt
	sum, err := Run(t.Context(), mustLoad(t, jsonl(3, testNow, "u")), cfg)
	require.NoError(t, err)
	require.Equal(t, 4, sum.Requests)
	require.Len(t, rec.slept, 3)
	require.InDelta(t, 90, rec.slept[0].Seconds(), 0.5)
	require.InDelta(t, 210, rec.slept[1].Seconds(), 1)
	require.InDelta(t, 3600, rec.slept[2].Seconds(), 0.5)
}

func TestRunBacksOff(t *testing.T) {
	t.Parallel()
	_, rec, cfg := setup(t, func(n int, _ post) (int, string, string) {
		return []int{500, -1, 503, 429, 502, 503, 503, 503, 0}[n], "", ""
	})
	cfg.Attempts = 4
	sum, err := Run(t.Context(), mustLoad(t, jsonl(3, testNow, "u")), cfg)
	require.NoError(t, err)
	require.Equal(t, 3, sum.Received)
	require.Len(t, rec.slept, 8)
	for i, d := range rec.slept {
		full := min(500*time.Millisecond<<i, 30*time.Second)
		require.GreaterOrEqual(t, d, full/2)
		require.Less(t, d, full)
	}
}

func TestRunGivesUpOnFailures(t *testing.T) {
	t.Parallel()
	for _, status := range []int{500, 504, -1} {
		_, rec, cfg := setup(t, func(int, post) (int, string, string) { return status, "", "" })
		cfg.Attempts = 3
		sum, err := Run(t.Context(), mustLoad(t, jsonl(3, testNow, "u")), cfg)
		require.ErrorContains(t, err, "tried 3 times")
		require.ErrorContains(t, err, "3 of 3 events not sent")
		require.Equal(t, 3, sum.Requests)
		require.Zero(t, sum.Sent)
		require.Len(t, rec.slept, 2)
	}
}

// What is refused for good stops its user at once, and only that one.
func TestRunStopsRefusedUsers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		401: "401 X: no\u00fc (the token is not valid)", 403: "403 X: no\u00fc (the token's user", 400: "answered 400 X", 404: "404", 307: "307",
	} {
		api, rec, cfg := setup(t, func(_ int, p post) (int, string, string) {
			if p.token == "bad" {
				return status, "Location: /elsewhere", `{"error":{"code":"X","message":"no\u001b\u00fc","details":[]}}`
			}
			return 0, "", ""
		})
		tokens, err := ParseTokens(strings.NewReader("# tokens\n\nu1 bad\nu2\tgood\n"))
		require.NoError(t, err)
		cfg.Tokens, cfg.BatchSize = tokens, 5
		sum, err := Run(t.Context(), mustLoad(t, jsonl(10, testNow, "u1", "u2")), cfg)
		require.ErrorContains(t, err, `user "u1"`)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), `"u2"`)
		require.NotContains(t, err.Error(), "bad")
		require.Equal(t, 10, sum.Received)
		require.Len(t, api.posts, 3)
		require.Empty(t, rec.slept)
	}
}

func TestRunSumsUpAnswers(t *testing.T) {
	t.Parallel()
	_, _, cfg := setup(t, func(int, post) (int, string, string) {
		return 202, "", `{"received":3,"duplicate":1,"rejected":[{"index":0,"id":"x","reason":"too_old"},{"index":1,"id":"","reason":"invalid_id"}],"rejected_total":7}`
	})
	cfg.BatchSize = 10
	sum, err := Run(t.Context(), mustLoad(t, jsonl(20, testNow, "u")), cfg)
	require.NoError(t, err)
	require.Equal(t, Summary{
		Users: 1, Events: 20, Sent: 20, Received: 6, Duplicate: 2, RejectedTotal: 14, Requests: 2,
		Rejected: map[string]int{"too_old": 2, "invalid_id": 2, "unlisted": 10},
	}, sum)
}

func TestRunRefusesForeignAnswers(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"<html>welcome</html>", "{}", "[]", ""} {
		_, _, cfg := setup(t, func(int, post) (int, string, string) { return 200, "", body })
		sum, err := Run(t.Context(), mustLoad(t, jsonl(2, testNow, "u")), cfg)
		require.ErrorContains(t, err, "not as Commma does")
		require.Zero(t, sum.Sent)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("interrupted")
	_, rec, cfg := setup(t, func(n int, _ post) (int, string, string) {
		if n == 0 {
			return 0, "", ""
		}
		return 429, "Retry-After: 60", ""
	})
	cfg.BatchSize = 1
	cfg.Sleep = func(ctx context.Context, d time.Duration) error {
		cancel(stop)
		return rec.sleep(ctx, d)
	}
	sum, err := Run(ctx, mustLoad(t, jsonl(5, testNow, "u")), cfg)
	require.ErrorIs(t, err, stop)
	require.Equal(t, 1, sum.Sent)
	require.ErrorIs(t, clock.Sleep(ctx, time.Hour), context.Canceled)
	require.NoError(t, clock.Sleep(t.Context(), time.Nanosecond))
}

func TestRunChecksItsConfig(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, jsonl(1, testNow, "u1", "u2"))
	for want, change := range map[string]func(*Config){
		"want a URL":                  func(c *Config) { c.URL = "127.0.0.1:8080" },
		"batch size 501":              func(c *Config) { c.BatchSize = 501 },
		"batch size -1":               func(c *Config) { c.BatchSize = -1 },
		"must be positive":            func(c *Config) { c.Parallel = -1 },
		`no token for user "u2"`:      func(c *Config) { c.Tokens = Tokens{byUser: map[string]string{"u1": "t"}} },
		"weeks not negative":          func(c *Config) { c.Shift = ShiftBy(-1) },
		"at most 4 weeks can be shif": func(c *Config) { c.Shift = ShiftAuto },
	} {
		api, _, cfg := setup(t, nil)
		change(&cfg)
		file := f
		if cfg.Shift == ShiftAuto {
			file = mustLoad(t, jsonl(1, testNow, "u1")+jsonl(1, testNow.Add(-29*24*time.Hour), "u1"))
		}
		_, err := Run(t.Context(), file, cfg)
		require.ErrorContains(t, err, want)
		require.Empty(t, api.posts, "nothing is sent")
	}
}

func TestRunShifts(t *testing.T) {
	t.Parallel()
	last := testNow.Add(-100*7*24*time.Hour - 36*time.Hour)
	for shift, weeks := range map[Shift]int{ShiftAuto: 100, ShiftBy(3): 3, {}: 0} {
		api, _, cfg := setup(t, nil)
		cfg.Shift = shift
		sum, err := Run(t.Context(), mustLoad(t, jsonl(1, last, "u")), cfg)
		require.NoError(t, err)
		require.Equal(t, weeks, sum.ShiftedWeeks)
		require.Equal(t, float64(last.Add(time.Duration(weeks)*7*24*time.Hour).UnixMilli()), api.posts[0].events[0]["ts"])
	}
}

func TestProgressIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	_, rec, cfg := setup(t, func(n int, _ post) (int, string, string) {
		if n%2 == 0 {
			return 429, "Retry-After: 7", ""
		}
		return 0, "", ""
	})
	cfg.Log, cfg.BatchSize = slog.New(slog.NewTextHandler(&log, nil)), 2
	_, err := Run(t.Context(), mustLoad(t, jsonl(4, testNow, "u")), cfg)
	require.NoError(t, err)
	require.Len(t, rec.slept, 2)
	require.Contains(t, log.String(), "done=2 total=4")
	require.Contains(t, log.String(), "done=4 total=4")
	require.Contains(t, log.String(), "wait=7s")
}

func TestProgressBar(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	_, _, cfg := setup(t, nil)
	cfg.Bar = &screen
	_, err := Run(t.Context(), mustLoad(t, jsonl(4, testNow, "u")), cfg)
	require.NoError(t, err)
	require.Contains(t, screen.String(), "4/4")
	require.True(t, strings.HasSuffix(screen.String(), "\n"))
}
