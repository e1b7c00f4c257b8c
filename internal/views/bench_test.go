package views

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/writebehind"
)

// Views of ten hot profiles by sixteen clients, counted by one UPDATE per view, and gathered and flushed. Both run in one
// process, on the same servers and after one another; the flushes are part of the time.
func BenchmarkViews(b *testing.B) {
	const clients, profiles, viewsPerRun, flushEvery = 16, 10, 20_000, 5000
	pool, err := store.Open(b.Context(), testenv.PostgresURL(b), store.Options{MaxConns: clients})
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	rdb, err := redisconn.Open(b.Context(), testenv.RedisURL(b))
	require.NoError(b, err)
	b.Cleanup(func() { _ = rdb.Close() })
	owners := make([]uuid.UUID, profiles)
	for i := range owners {
		owners[i] = uuid.New()
		_, err := pool.Exec(b.Context(), `INSERT INTO user_counters (user_id) VALUES ($1)`, owners[i])
		require.NoError(b, err)
	}
	_, err = pool.Exec(b.Context(), `ALTER TABLE user_counters SET (autovacuum_enabled = off)`) // so that what is dead stays to be counted
	require.NoError(b, err)
	recorder := NewRecorder(rdb, clock.System{}, testenv.Logger(b), RecorderConfig{Timeout: time.Minute})
	flusher := writebehind.NewFlusher(pool, rdb, clock.System{}, Kind())

	update := func(owner uuid.UUID, _ int) error {
		_, err := pool.Exec(b.Context(), `UPDATE user_counters SET views = views + 1 WHERE user_id = $1`, owner)
		return err
	}
	record := func(owner uuid.UUID, n int) error {
		if !recorder.Record(b.Context(), Viewer{User: uuid.New()}, Target{Owner: owner}) {
			return fmt.Errorf("view %d was not recorded", n)
		}
		if n%flushEvery == 0 {
			_, err := flusher.Flush(b.Context())
			return err
		}
		return nil
	}
	for _, way := range []struct {
		name  string
		count func(owner uuid.UUID, n int) error
	}{{"one UPDATE per view", update}, {"write-behind", record}} {
		b.Run(way.name, func(b *testing.B) {
			updates, dead := tableStats(b, pool)
			var took []time.Duration
			runs := 0
			for b.Loop() {
				runs++
				took = append(took, each(b, clients, viewsPerRun, func(n int) error { return way.count(owners[rand.IntN(profiles)], n) })...)
			}
			nowUpdates, nowDead := tableStats(b, pool)
			slices.Sort(took)
			total := float64(runs * viewsPerRun)
			b.ReportMetric(total/b.Elapsed().Seconds(), "views/s")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(nowUpdates-updates)/total*1000, "updates/1000")
			b.ReportMetric(float64(max(nowDead-dead, 0))/total*1000, "dead/1000")
		})
	}
}

// each calls fn for 1 to n in so many goroutines, and returns how long each call took.
func each(b *testing.B, goroutines, n int, fn func(n int) error) []time.Duration {
	took := make([]time.Duration, n)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				start := clock.System{}.Now()
				if err := fn(i + 1); err != nil {
					b.Error(err)
				}
				took[i] = clock.System{}.Now().Sub(start)
			}
		})
	}
	wg.Wait()
	return took
}

// tableStats are the row updates of user_counters so far, and its dead rows. Sessions hand in their statistics when they end;
// rows that were pruned within their page are no longer dead, so what is left is what the table grew by.
func tableStats(b *testing.B, pool *pgxpool.Pool) (updates, dead int64) {
	b.Helper()
	b.StopTimer()
	defer b.StartTimer()
	pool.Reset()
	last := int64(-1)
	require.Eventually(b, func() bool {
		row := pool.QueryRow(b.Context(), `SELECT n_tup_upd, n_dead_tup FROM pg_stat_user_tables WHERE relname = 'user_counters'`)
		require.NoError(b, row.Scan(&updates, &dead))
		same := updates == last
		last = updates
		return same
	}, 20*time.Second, 1500*time.Millisecond)
	return updates, dead
}
