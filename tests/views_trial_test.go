package tests

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

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

// A profile that thousands look at is one row update per flush, and its views are the distinct viewers of each hour.
func TestTrialsViewsOfHotProfiles(t *testing.T) {
	alongside(t)
	s := newSuite(t, "hot profiles viewed by 64 clients over three hours", 1)
	st := newStack(t)
	pool := openPool(t, st.database)
	defer pool.Close()
	rdb, err := redisconn.Open(t.Context(), st.rdb)
	require.NoError(t, err)
	defer func() { _ = rdb.Close() }()
	hour := time.Date(2026, 6, 17, 22, 0, 0, 0, time.UTC) // so that a day ends on the way
	now := clock.NewManual(hour)
	recorder := views.NewRecorder(rdb, now, nopLogger(), views.RecorderConfig{Timeout: time.Minute})
	flusher := writebehind.NewFlusher(pool, rdb, now, views.Kind())
	var profiles [hotProfiles]views.Target
	for i := range profiles {
		profiles[i].Owner = uuid.New()
		_, err := pool.Exec(t.Context(), `INSERT INTO user_counters (user_id) VALUES ($1)`, profiles[i].Owner)
		require.NoError(t, err)
	}
	var viewers [hotViewers]views.Viewer
	for i := range viewers {
		viewers[i].User = uuid.New()
	}

	perStep := scaled(200_000, 20_000) / hotFlushes
	var distinct [hotHours][hotProfiles][hotViewers]atomic.Bool
	var recorded atomic.Int64
	var updates int // of rows, one for each profile that was viewed between two flushes
	for step := range hotFlushes {
		now.Set(hour.Add(time.Duration(step) * 5 * time.Minute))
		var viewed [hotProfiles]atomic.Bool
		var left atomic.Int64
		left.Store(int64(perStep))
		var clients sync.WaitGroup
		for range hotClients {
			clients.Go(func() {
				for left.Add(-1) >= 0 {
					v, p := rand.IntN(hotViewers), rand.IntN(hotProfiles)
					distinct[step/12][p][v].Store(true)
					if recorder.Record(t.Context(), viewers[v], profiles[p]) {
						recorded.Add(1)
						viewed[p].Store(true)
					}
				}
			})
		}
		clients.Wait()
		for p := range viewed {
			if viewed[p].Load() {
				updates++
			}
		}
		stats, err := flusher.Flush(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, stats[views.Name].Batches)
	}

	var found tally
	for p := range profiles {
		var want int64
		for h := range distinct {
			for v := range distinct[h][p] {
				if distinct[h][p][v].Load() {
					want++
				}
			}
		}
		got := rows[struct{ Views, Days int64 }](t, pool, `SELECT c.views, (SELECT sum(profile)::bigint FROM view_days d WHERE d.user_id = c.user_id)
			FROM user_counters c WHERE c.user_id = $1`, profiles[p].Owner)[0]
		found.add(tally{Expected: want, Found: got.Views, Duplicates: max(got.Views-want, 0), Lost: max(want-got.Views, 0), Drift: abs(got.Views - got.Days)})
	}
	require.Equal(t, recorded.Load(), found.Found)
	s.add(found)
	updated := awaitUpdates(t, st.database, int64(updates))
	require.Equal(t, int64(updates), updated, "row updates of user_counters")
	t.Logf("%d looks, %d views, %d row updates in %d flushes", perStep*hotFlushes, found.Found, updated, hotFlushes)
}

// awaitUpdates is how many rows of user_counters were updated, once the server's statistics have it.
func awaitUpdates(t *testing.T, database string, want int64) (updated int64) {
	t.Helper()
	pool := openPool(t, database)
	defer pool.Close()
	require.Eventually(t, func() bool {
		updated = rows[struct{ N int64 }](t, pool, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'user_counters'`)[0].N
		return updated >= want
	}, 30*time.Second, 50*time.Millisecond, fmt.Sprint(want))
	return updated
}
