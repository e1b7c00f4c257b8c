package bench

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/verify"
)

// benchVerify checks everything, against a bare look at each row of what is compared. Meanwhile users are finalized, fifty a
// second, as before without a check.
func benchVerify(b *testing.B, s *site, rdb *redis.Client, builder *leaderboard.Builder) {
	boards := leaderboard.NewBoards(rdb)
	checker := verify.New(verify.Deps{
		DB: s.db, Finalizer: s.finalizer, Boards: leaderboard.NewVerifier(s.db, rdb, languages.Keys()), Builder: builder,
		Publisher: outbox.New(s.db, boards, builder, languages.Keys()), Clock: clock.NewManual(noon), Log: quiet,
	})
	w := &writers{site: s, ids: s.hot(b, min(s.due.users, 15_000))}
	alone := w.during(b, func() { _ = clock.Sleep(b.Context(), 5*time.Second) })
	var took, bare []time.Duration
	var beside tally
	for b.Loop() {
		bare = append(bare, timed(func() {
			for _, table := range []string{"session_seconds", "sessions", "totals"} {
				_, err := s.db.Exec(b.Context(), `SELECT count(*), max(t.user_id::text) FROM `+table+` t`)
				require.NoError(b, err)
			}
		}))
		t := w.during(b, func() {
			took = append(took, timed(func() {
				u, err := checker.Users(b.Context(), verify.Options{})
				require.NoError(b, err)
				require.Zero(b, u.Drift)
				require.EqualValues(b, s.due.users, u.Users)
				p, err := checker.CheckBoards(b.Context(), verify.Options{})
				require.NoError(b, err)
				require.Zero(b, p.Drift)
				require.Positive(b, p.Members)
				b.ReportMetric(float64(p.Members), "places")
			}))
		})
		beside.took, beside.waited = append(beside.took, t.took...), beside.waited+t.waited
	}
	s1 := median(took).Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(s1, "s")
	b.ReportMetric(float64(s.due.users)/s1, "users/s")
	b.ReportMetric(s1/median(bare).Seconds(), "ratio-to-bare-scan")
	b.ReportMetric(float64(len(beside.took)), "finalized-beside")
	b.ReportMetric(float64(beside.waited), "lock-waits")
	b.ReportMetric(millis(median(alone.took)), "finalize-alone-ms")
	b.ReportMetric(millis(median(beside.took)), "finalize-beside-ms")
}

// hot makes the first n users due and returns their ids.
func (s *site) hot(b *testing.B, n int) (ids []uuid.UUID) {
	b.Helper()
	s.due.add(b, s.db, n)
	rows, err := s.db.Query(b.Context(), `SELECT user_id FROM hot_runs`)
	require.NoError(b, err)
	for rows.Next() {
		var id uuid.UUID
		require.NoError(b, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(b, rows.Err())
	settle(b, s.db)
	return ids
}

// writers finalize one user after another.
type writers struct {
	*site
	ids []uuid.UUID
}

// tally is what became of them: how long each took, and how often somebody was seen to wait for a lock.
type tally struct {
	took   []time.Duration
	waited int
}

// during finalizes until fn is over, fifty users a second.
func (w *writers) during(b *testing.B, fn func()) (t tally) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for clock.Sleep(ctx, 20*time.Millisecond) == nil && len(w.ids) > 0 {
			id := w.ids[0]
			w.ids = w.ids[1:]
			t.took = append(t.took, timed(func() {
				if _, err := w.finalizer.Finalize(b.Context(), w.db, id, &noon); err != nil {
					b.Error(err)
				}
			}))
			var waiting int
			if err := w.db.QueryRow(b.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted`).Scan(&waiting); err != nil {
				b.Error(err)
			}
			t.waited += waiting
		}
	}()
	fn()
	cancel()
	<-done
	return t
}
