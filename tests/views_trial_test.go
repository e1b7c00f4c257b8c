package tests

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/views"
	"github.com/commma/commma/internal/writebehind"
)

// The hot pages of the trial: so many clients view so few profiles for three hours of the clock.
const (
	hotClients  = 64
	hotProfiles = 10
	hotViewers  = 2000
	hotHours    = 3
	hotFlushes  = 12 * hotHours // one in five minutes
)

// hotPages is an installation with hot profiles, and who looks at them.
type hotPages struct {
	t        *testing.T
	pool     *pgxpool.Pool
	now      *clock.Manual
	flusher  *writebehind.Flusher
	bases    []string // of two APIs
	client   *http.Client
	profiles [hotProfiles]account.Created
	tokens   [hotViewers]string // empty for those whom nobody knows but by their agent
	// distinct says who looked at what in which hour.
	distinct [hotHours][hotProfiles][hotViewers]atomic.Bool
	recorded atomic.Int64
}

func newHotPages(t *testing.T, st *stack, start time.Time) *hotPages {
	t.Helper()
	h := &hotPages{t: t, pool: openPool(t, st.database), now: clock.NewManual(start),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: hotClients}}}
	t.Cleanup(h.pool.Close)
	t.Cleanup(h.client.CloseIdleConnections)
	rdb, err := redisconn.Open(t.Context(), st.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	h.flusher = writebehind.NewFlusher(h.pool, rdb, h.now, views.Kind())
	for range 2 {
		h.bases = append(h.bases, startNode(t, nodeConfig{database: st.database, rdb: st.rdb, clock: h.now, patient: true}))
	}
	for i := range h.profiles {
		h.profiles[i] = h.user(fmt.Sprintf("hot-%d", i))
	}
	for i := range hotViewers / 2 {
		h.tokens[i] = h.user(fmt.Sprintf("viewer-%d", i)).Token
	}
	return h
}

func (h *hotPages) user(handle string) account.Created {
	h.t.Helper()
	u, err := account.Create(h.t.Context(), h.pool, account.NewUser{Handle: handle})
	require.NoError(h.t, err)
	return u
}

// look has a viewer look at a profile, and returns whether that counted.
func (h *hotPages) look(viewer, profile int) (counted bool, err error) {
	url := h.bases[rand.IntN(len(h.bases))] + "/v1/users/" + h.profiles[profile].Handle
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("User-Agent", fmt.Sprintf("reader-%d", viewer))
	if h.tokens[viewer] != "" {
		req.Header.Set("Authorization", "Bearer "+h.tokens[viewer])
	}
	res, err := h.client.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	return res.Header.Get("X-View-Recorded") == "true", err
}

// step has the clients look so often, flushes, and returns how many profiles were looked at.
func (h *hotPages) step(hour, looks int) (viewed int) {
	h.t.Helper()
	var seen [hotProfiles]atomic.Bool
	var left atomic.Int64
	left.Store(int64(looks))
	var clients errgroup.Group
	for range hotClients {
		clients.Go(func() error {
			for left.Add(-1) >= 0 {
				v, p := rand.IntN(hotViewers), rand.IntN(hotProfiles)
				h.distinct[hour][p][v].Store(true)
				counted, err := h.look(v, p)
				if err != nil {
					return err
				}
				if counted {
					h.recorded.Add(1)
					seen[p].Store(true)
				}
			}
			return nil
		})
	}
	require.NoError(h.t, clients.Wait())
	stats, err := h.flusher.Flush(h.t.Context())
	require.NoError(h.t, err)
	require.Equal(h.t, 1, stats[views.Name].Batches)
	for p := range seen {
		if seen[p].Load() {
			viewed++
		}
	}
	return viewed
}

// found compares what was counted of each profile with who looked at it.
func (h *hotPages) found() (found tally) {
	h.t.Helper()
	for p := range h.profiles {
		var want int64
		for hour := range h.distinct {
			for v := range h.distinct[hour][p] {
				if h.distinct[hour][p][v].Load() {
					want++
				}
			}
		}
		got := rows[struct{ Views, Days int64 }](h.t, h.pool, `SELECT c.views, (SELECT sum(profile)::bigint FROM view_days d
			WHERE d.user_id = c.user_id) FROM user_counters c WHERE c.user_id = $1`, h.profiles[p].ID)[0]
		found.add(tally{Expected: want, Found: got.Views, Duplicates: max(got.Views-want, 0), Lost: max(want-got.Views, 0), Drift: abs(got.Views - got.Days)})
	}
	return found
}

// A profile that thousands look at is one row update per flush, and its views are the distinct viewers of each hour.
func TestTrialsViewsOfHotProfiles(t *testing.T) {
	alongside(t)
	s := newSuite(t, "hot profiles viewed by 64 clients over three hours", 1)
	st := newStack(t)
	start := time.Date(2026, 6, 17, 22, 0, 0, 0, time.UTC) // so that a day ends on the way
	h := newHotPages(t, st, start)
	looks, updates := scaled(200_000, 8_000)/hotFlushes, 0
	before := updatesOf(t, h.pool)
	for n := range hotFlushes {
		h.now.Set(start.Add(time.Duration(n) * 5 * time.Minute))
		updates += h.step(n/12, looks)
	}
	found := h.found()
	require.Equal(t, h.recorded.Load(), found.Found)
	s.add(found)
	updated := awaitUpdates(t, st.database, before+int64(updates)) - before
	require.Equal(t, int64(updates), updated, "row updates of user_counters")
	t.Logf("%d looks, %d views, %d row updates in %d flushes", looks*hotFlushes, found.Found, updated, hotFlushes)
}

// updatesOf is how many rows of user_counters were updated so far.
func updatesOf(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	return rows[struct{ N int64 }](t, pool, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'user_counters'`)[0].N
}

// awaitUpdates is how many rows of user_counters were updated, once the server's statistics have it.
func awaitUpdates(t *testing.T, database string, want int64) (updated int64) {
	t.Helper()
	pool := openPool(t, database)
	defer pool.Close()
	require.Eventually(t, func() bool {
		updated = updatesOf(t, pool)
		return updated >= want
	}, 30*time.Second, 50*time.Millisecond, fmt.Sprint(want))
	return updated
}
