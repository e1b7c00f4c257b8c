package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/privacy"
)

// events is a batch of n good events; the first dup of them stand in it twice.
func events(n, dup int) string {
	var list []string
	for i := range n {
		e := fmt.Sprintf(`{"id":"5da7f8a2-0000-4000-8000-%012d","ts":%d,"lang":"go","keystrokes":1,"lines":0,"file":"a.go"}`, i, testNow.UnixMilli())
		list = append(list, e)
		if i < dup {
			list = append(list, e)
		}
	}
	return `{"events":[` + strings.Join(list, ",") + `]}`
}

func TestIngest(t *testing.T) {
	t.Parallel()
	var stored *ingest.Batch
	b := setup(t, &fake{store: func(_ context.Context, b *ingest.Batch) (ingest.Stored, error) {
		stored = b
		return ingest.Stored{Received: b.Received, Mode: activity.ModeFull}, nil
	}})
	got := b.call(t, http.MethodPost, "/v1/ingest", events(3, 1), signedIn())
	require.Equal(t, http.StatusAccepted, got.status)
	require.JSONEq(t, `{"received":4,"duplicate":1,"rejected":[],"rejected_total":0}`, got.body)
	require.Equal(t, "a.go", stored.Events[0].File)
}

// One bad event costs itself alone; all bad is still taken, since a 400 would make clients throw the batch away.
func TestIngestRejectsSingly(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	bad := `{"id":"nonsense","ts":1,"keystrokes":1,"lines":0},7,{"id":"5DA7F8A2-0000-4000-8000-000000000000","keystrokes":1,"lines":0}`
	got := b.call(t, http.MethodPost, "/v1/ingest", `{"events":[`+bad+`]}`, signedIn())
	require.Equal(t, http.StatusAccepted, got.status)
	answer := got.json(t)
	require.EqualValues(t, 0, answer["received"])
	require.EqualValues(t, 3, answer["rejected_total"])
	require.Equal(t, []any{
		map[string]any{"index": 0.0, "id": nil, "reason": "invalid_id"},
		map[string]any{"index": 1.0, "id": nil, "reason": "not_an_object"},
		map[string]any{"index": 2.0, "id": "5DA7F8A2-0000-4000-8000-000000000000", "reason": "invalid_ts"},
	}, answer["rejected"])
}

func TestIngestOfAnOffUser(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{store: func(context.Context, *ingest.Batch) (ingest.Stored, error) {
		return ingest.Stored{Mode: activity.ModeOff}, nil
	}})
	got := b.call(t, http.MethodPost, "/v1/ingest", events(2, 1), signedIn())
	require.JSONEq(t, `{"received":0,"duplicate":0,"rejected":[],"rejected_total":0}`, got.body)
}

// The cached mode strips before the store sees anything, and drops nothing.
func TestIngestStripsByTheCachedMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []activity.Mode{activity.ModeSummary, activity.ModeOff, activity.ModeFull, ""} {
		var stored *ingest.Batch
		b := setup(t, &fake{
			admit: func(admission.Request) (admission.Grant, error) {
				return admission.Grant{UserID: testUser, Mode: mode, Limit: testLimit}, nil
			},
			store: func(_ context.Context, b *ingest.Batch) (ingest.Stored, error) {
				stored = b
				return ingest.Stored{Received: b.Received}, nil
			},
		})
		got := b.call(t, http.MethodPost, "/v1/ingest", events(2, 0), signedIn())
		require.Equal(t, http.StatusAccepted, got.status)
		require.Len(t, stored.Events, 2)
		keeps := mode == activity.ModeFull || mode == ""
		require.Equal(t, keeps, stored.Events[0].File != "", "mode %q", mode)
	}
}

func gzipped(t *testing.T, s string) string {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, err := io.WriteString(w, s)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return buf.String()
}

func TestIngestBodies(t *testing.T) {
	t.Parallel()
	gzipHeader := withHeader("Content-Encoding", "gzip")
	tooLarge := `{"x":"` + strings.Repeat("x", 1<<20) + `","events":[]}`
	for name, tc := range map[string]struct {
		body    string
		options []option
		status  int
	}{
		"gzip":                    {gzipped(t, events(1, 0)), []option{gzipHeader}, 202},
		"identity":                {events(1, 0), []option{withHeader("Content-Encoding", "identity")}, 202},
		"another content type":    {events(1, 0), []option{withHeader("Content-Type", "text/plain")}, 202},
		"500 events":              {events(500, 0), nil, 202},
		"501 events":              {events(501, 0), nil, 413},
		"over 1 MiB":              {tooLarge, nil, 413},
		"over 1 MiB decompressed": {gzipped(t, tooLarge), []option{gzipHeader}, 413},
		"broken gzip":             {"plain", []option{gzipHeader}, 400},
		"unknown encoding":        {events(1, 0), []option{withHeader("Content-Encoding", "br")}, 400},
		"two encodings":           {events(1, 0), []option{gzipHeader, gzipHeader}, 400},
		"no body":                 {"", nil, 400},
		"not JSON":                {"{", nil, 400},
		"no events":               {`{"events":[]}`, nil, 400},
		"not a batch":             {`[]`, nil, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := setup(t, &fake{}).call(t, http.MethodPost, "/v1/ingest", tc.body, append(tc.options, signedIn())...)
			require.Equal(t, tc.status, got.status, got.body)
			switch tc.status {
			case 400:
				got.requireError(t, 400, api.ErrorCodeValidationError)
			case 413:
				got.requireError(t, 413, api.ErrorCodePayloadTooLarge)
			}
			require.Equal(t, "299", got.header.Get("X-RateLimit-Remaining"), "who was admitted knows the limit, also after a bad request")
		})
	}
}

// brokenBody fails as a connection does, in the middle.
type brokenBody struct{ read bool }

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.read {
		return 0, errors.New("connection reset")
	}
	b.read = true
	return copy(p, `{"events":[`), nil
}

func (b *brokenBody) Close() error { return nil }

// After a 400 clients throw the batch away: the network's fault must not become one.
func TestIngestBodyThatDoesNotArrive(t *testing.T) {
	t.Parallel()
	got := setup(t, &fake{}).call(t, http.MethodPost, "/v1/ingest", "", signedIn(),
		func(r *http.Request) { r.Body = &brokenBody{} })
	got.requireError(t, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable)
}

func TestIngestReadsNoBodyOfStrangers(t *testing.T) {
	t.Parallel()
	body := &brokenBody{}
	got := setup(t, &fake{}).call(t, http.MethodPost, "/v1/ingest", "", withHeader("Authorization", "Bearer wrong"),
		func(r *http.Request) { r.Body = body })
	got.requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
	require.False(t, body.read)
}

// The rest of a body that is too large is read, so that the client gets its 413 and not a broken connection.
func TestIngestDrainsWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	body := strings.NewReader(`{"x":"` + strings.Repeat("x", 3<<20))
	got := setup(t, &fake{}).call(t, http.MethodPost, "/v1/ingest", "", signedIn(),
		func(r *http.Request) { r.Body = io.NopCloser(body) })
	got.requireError(t, http.StatusRequestEntityTooLarge, api.ErrorCodePayloadTooLarge)
	require.Zero(t, body.Len())
}

func TestIngestHasADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	b := setupWith(t, &fake{store: func(ctx context.Context, _ *ingest.Batch) (ingest.Stored, error) {
		<-ctx.Done()
		return ingest.Stored{}, ctx.Err()
	}}, Config{IngestTimeout: 1})
	got := b.call(t, http.MethodPost, "/v1/ingest", events(1, 0), signedIn())
	got.requireError(t, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable)
}

// A mode lives shorter in the cache than a token: the request that finds none brings it back.
func TestIngestFillsTheModeItDidNotFind(t *testing.T) {
	t.Parallel()
	for _, known := range []activity.Mode{"", activity.ModeFull} {
		f := &fake{
			admit: func(admission.Request) (admission.Grant, error) {
				return admission.Grant{UserID: testUser, Mode: known, Limit: testLimit}, nil
			},
			store: func(_ context.Context, b *ingest.Batch) (ingest.Stored, error) {
				return ingest.Stored{Received: b.Received, Mode: activity.ModeSummary, Version: 9}, nil
			},
		}
		setup(t, f).call(t, http.MethodPost, "/v1/ingest", events(1, 0), signedIn())
		if known == "" {
			require.Equal(t, []privacy.Entry{{Version: 9, Mode: activity.ModeSummary}}, f.filled)
		} else {
			require.Empty(t, f.filled)
		}
	}
}
