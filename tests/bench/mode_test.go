package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/app/web"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/httpapi"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// BenchmarkMode measures what an upload pays to know its user's mode: with the mode in the cache, where it comes with the
// rest of the admission; with an empty cache, which is then filled; and with a question to Postgres in front of each upload.
func BenchmarkMode(b *testing.B) {
	n := newModeNode(b)
	cached := func() time.Duration { return n.uploads(b, func() {}) }
	b.Run("filled/against=cached", func(b *testing.B) {
		n.duel(b, cached, func() time.Duration {
			return n.uploads(b, func() {
				require.NoError(b, n.rdb.Del(b.Context(), privacy.Key(redisconn.ShardsOf(n.rdb), n.user.ID)).Err())
			})
		})
		require.Positive(b, n.door.fills.Load())
	})
	b.Run("lookup/against=cached", func(b *testing.B) {
		n.duel(b, cached, func() time.Duration {
			n.door.asks.Store(true)
			defer n.door.asks.Store(false)
			return n.uploads(b, func() {})
		})
	})
}

// modeNode is an API, wired as serve does, with one user.
type modeNode struct {
	rdb    redis.UniversalClient
	door   *door
	url    string
	client *http.Client
	user   account.Created
}

// door is the admission, with what it takes of each upload: until the mode is known, and to cache it afterwards.
type door struct {
	*admission.Admitter
	db    *pgxpool.Pool
	asks  atomic.Bool // Postgres for the mode, each time, as if there were no cache
	took  atomic.Int64
	fills atomic.Int64
}

// Admit implements httpapi.Admitter.
func (d *door) Admit(ctx context.Context, req admission.Request) (g admission.Grant, err error) {
	d.took.Add(int64(timed(func() {
		g, err = d.Admitter.Admit(ctx, req)
		if err != nil || !d.asks.Load() {
			return
		}
		var user dbsqlc.UserGetModeRow
		user, err = dbsqlc.New().UserGetMode(ctx, d.db, g.UserID)
		g.Mode = user.Privacy
	})))
	return g, err
}

// FillMode implements httpapi.Admitter.
func (d *door) FillMode(ctx context.Context, id uuid.UUID, e privacy.Entry, readAt time.Time) {
	d.fills.Add(1)
	d.took.Add(int64(timed(func() { d.Admitter.FillMode(ctx, id, e, readAt) })))
}

func newModeNode(b *testing.B) *modeNode {
	b.Helper()
	db := testenv.StockPostgres(b, "synchronous_commit", "off")
	rdb, err := redisconn.New(testenv.OwnDurableRedis(b).URL())
	require.NoError(b, err)
	b.Cleanup(func() { _ = rdb.Close() })
	limits := admission.DefaultConfig()
	for scope := range limits.PerHour {
		limits.PerHour[scope] = 100_000_000
	}
	a, err := app.New(db, rdb, clock.System{}, quiet, app.Options{Admission: limits})
	require.NoError(b, err)
	n := &modeNode{rdb: rdb, door: &door{Admitter: a.Admission, db: db}, client: &http.Client{Timeout: time.Minute}}
	n.user, err = a.Accounts.Create(b.Context(), account.NewUser{Handle: "typist"})
	require.NoError(b, err)
	run(b, a.Events)
	deps := web.Deps(a, prometheus.NewRegistry())
	deps.Admission = n.door
	server, err := httpapi.New(deps, httpapi.Config{})
	require.NoError(b, err)
	api := httptest.NewServer(server)
	b.Cleanup(api.Close)
	n.url = api.URL
	return n
}

// run runs the writer until the benchmark ends.
func run(b *testing.B, w *ingest.Writer) {
	b.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Run(ctx)
	}()
	b.Cleanup(func() {
		stop()
		<-done
	})
}

// calls is how many uploads are measured at a time.
const calls = 50

// uploads is the time of one of so many uploads of 60 events, each after prepare, which does not count.
func (n *modeNode) uploads(b *testing.B, prepare func()) (took time.Duration) {
	b.Helper()
	for range calls {
		body := batch(60)
		prepare()
		took += timed(func() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, n.url+"/v1/ingest", strings.NewReader(body))
			require.NoError(b, err)
			req.Header.Set("Authorization", "Bearer "+n.user.Token)
			res, err := n.client.Do(req)
			require.NoError(b, err)
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			require.Equal(b, http.StatusAccepted, res.StatusCode)
		})
	}
	return took / time.Duration(calls)
}

func batch(events int) string {
	var s strings.Builder
	now := clock.System{}.Now().UnixMilli()
	for i := range events {
		s.WriteString([]string{`{"events":[`, `,`}[min(i, 1)])
		fmt.Fprintf(&s, `{"id":"%s","ts":%d,"lang":"go","keystrokes":5,"lines":1,"file":"/home/me/%d.go","project":"p","key_freq":{"a":5}}`,
			uuid.NewString(), now-int64(i), i)
	}
	s.WriteString(`]}`)
	return s.String()
}

// duel compares whole uploads, and of each the time at the door: in milliseconds, as a ratio, and as its share of the upload.
func (n *modeNode) duel(b *testing.B, reference, subject func() time.Duration) {
	b.Helper()
	var doors [2][]time.Duration
	watch := func(side int, run func() time.Duration) func() time.Duration {
		return func() time.Duration {
			n.door.took.Store(0)
			took := run()
			doors[side] = append(doors[side], time.Duration(n.door.took.Load())/calls)
			return took
		}
	}
	ref, subj := duel(b, watch(0, reference), watch(1, subject))
	doorRef, doorSubj := median(doors[0][1:]), median(doors[1][1:]) // the first does not count
	b.ReportMetric(millis(doorRef), "door-ref-ms")
	b.ReportMetric(millis(doorSubj), "door-ms")
	b.ReportMetric(float64(doorSubj)/float64(doorRef), "door-ratio")
	b.ReportMetric(float64(doorRef)/float64(ref), "door-share-ref")
	b.ReportMetric(float64(doorSubj)/float64(subj), "door-share")
}
