package verify

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/store"
)

// TestNoFalseDriftBesideWriters checks over and over while an aggregator finalizes, a publisher publishes and boards are
// built anew. Whatever a pass says then would be false.
func TestNoFalseDriftBesideWriters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 200)
	f.t = t
	const rounds = 12
	ctx, cancel := context.WithTimeout(f.ctx, 3*time.Minute)
	defer cancel()
	var writers errgroup.Group
	done := make(chan struct{})
	writers.Go(func() error {
		defer close(done)
		for i := range rounds {
			// Sessions of their own, and events that merge into those of today.
			at := noon.Add(-4*time.Hour - time.Duration(i)*31*time.Minute).Unix()
			if i%3 == 0 {
				at = noon.Add(-3*time.Hour + time.Duration(i)*time.Second).Unix()
			}
			f.upload(t, at, 200)
			if _, err := f.agg.Cycle(ctx, &noon); err != nil {
				return err
			}
		}
		return nil
	})
	until := func(fn func() error) func() error {
		return func() error {
			for {
				select {
				case <-done:
					return nil
				default:
				}
				if err := fn(); err != nil {
					return err
				}
			}
		}
	}
	writers.Go(until(func() error {
		_, err := f.checker.Publisher.Cycle(ctx, &noon)
		return err
	}))
	passes, members := 0, int64(0)
	var checks errgroup.Group
	checks.Go(until(func() error {
		r, err := f.checker.All(ctx, Options{Page: 23})
		if err == nil && r.Drift > 0 {
			err = fmt.Errorf("false drift in pass %d: %+v", passes, r)
		}
		passes++
		members += r.Members
		return err
	}))
	require.NoError(t, writers.Wait())
	require.NoError(t, checks.Wait())
	require.Greater(t, passes, 1)
	require.Positive(t, members)
	t.Logf("%d passes beside %d rounds of finalizing", passes, rounds)
	f.settle(t)
	require.Zero(t, f.check(false).Drift)
}

// TestHealDoesNotWaitForAWriter: who is busy is left, and reported, in a bounded time; the others are healed.
func TestHealDoesNotWaitForAWriter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	f.t = t
	f.exec(`UPDATE users SET longest_streak_days = 77 WHERE id = $1`, userID(3))
	f.exec(`UPDATE users SET longest_streak_days = 77 WHERE id = $1`, userID(4))
	require.NoError(t, store.WithTx(f.ctx, f.pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, store.WriterLock(userID(3))); err != nil {
			return err
		}
		r := f.check(true)
		require.EqualValues(t, 2, r.Drift)
		require.EqualValues(t, 1, r.Healed)
		return nil
	}))
	r := f.check(true)
	require.EqualValues(t, 1, r.Drift)
	require.EqualValues(t, 1, r.Healed)
}

// TestSpreadPasses: the background check finds and heals the same, and says so as it goes.
func TestSpreadPasses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 50)
	f.t = t
	f.exec(`UPDATE totals SET seconds = seconds + 1 WHERE user_id = $1 AND period = 'alltime' AND lang = ''`, userID(3))
	require.NoError(t, f.rdb.ZRem(f.ctx, scoresKey("day", "go"), userID(8).String()).Err())
	seen := map[string][2]int64{}
	o := Options{Heal: true, Page: 10, Anew: true, Observe: func(kind string, found, healed int64) {
		seen[kind] = [2]int64{seen[kind][0] + found, seen[kind][1] + healed}
	}}
	users, err := f.checker.UsersOver(f.ctx, 50*time.Millisecond, o)
	require.NoError(t, err)
	require.EqualValues(t, 50, users.Users)
	_, err = f.checker.BoardsOver(f.ctx, 50*time.Millisecond, o)
	require.NoError(t, err)
	require.Equal(t, map[string][2]int64{"total": {1, 1}, KindPlace: {1, 1}}, seen)
	require.Zero(t, f.check(false).Drift)
}

// TestAPassEndsWithItsContext: a process that stops does not wait for a pause.
func TestAPassEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	ctx, cancel := context.WithCancel(f.ctx)
	o := Options{Page: 5, Step: func(int64, int64, string) { cancel() }}
	_, err := f.checker.UsersOver(ctx, time.Hour, o)
	require.ErrorIs(t, err, context.Canceled)
}

// BenchmarkVerify measures a pass over many users, and says how long 100,000 would take.
func BenchmarkVerify(b *testing.B) {
	const users = 5000
	f := newFixture(b, users)
	f.checker.Log = slog.New(slog.DiscardHandler)
	for b.Loop() {
		r, err := f.checker.All(f.ctx, Options{})
		if err != nil || r.Drift != 0 || r.Users != users {
			b.Fatal(err, r)
		}
		b.ReportMetric(float64(r.Members), "places")
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*100_000/users, "s/100k-users")
}
