package ingest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/testenv"
)

// What one upload holds in the benchmarks: a minute's worth of a busy editor.
const benchEvents = 60

func benchUsers(b *testing.B, pool *pgxpool.Pool, n int) []uuid.UUID {
	b.Helper()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	_, err := pool.CopyFrom(b.Context(), pgx.Identifier{"users"}, []string{"id", "handle", "token_hash", "privacy"},
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			return []any{ids[i], strings.ReplaceAll(ids[i].String(), "-", ""), []byte{0}, string(activity.ModeFull)}, nil
		}))
	require.NoError(b, err)
	return ids
}

// BenchmarkStore stores uploads of 64 concurrent clients in commit groups. Its ceiling is BenchmarkCopy: the same rows by
// COPY, in groups of the same size, with no lock, no mode and no answer per client.
func BenchmarkStore(b *testing.B) {
	pool := testenv.Postgres(b)
	users := benchUsers(b, pool, 2000)
	w := NewWriter(pool, testenv.Logger(b), DefaultWriterConfig())
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	template := batch(benchEvents)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				own := *template
				own.Events = slices.Clone(template.Events)
				if _, err := w.Store(ctx, users[int(n)%len(users)], &own); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N*benchEvents)/b.Elapsed().Seconds(), "events/s")
	cancel()
	require.NoError(b, <-done)
}

// BenchmarkCopy is the ceiling of BenchmarkStore.
func BenchmarkCopy(b *testing.B) {
	pool := testenv.Postgres(b)
	users := benchUsers(b, pool, 2000)
	template := batch(benchEvents)
	const group = 64
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range DefaultWriterConfig().Flushers {
		wg.Go(func() {
			for {
				n := next.Add(group)
				if n-group >= int64(b.N) {
					return
				}
				_, err := pool.CopyFrom(b.Context(), pgx.Identifier{"events"},
					[]string{"user_id", "id", "ts", "lang", "keystrokes", "lines", "project", "file", "key_freq"},
					pgx.CopyFromSlice(group*benchEvents, func(i int) ([]any, error) {
						e := &template.Events[i%benchEvents]
						return []any{users[(int(n)+i/benchEvents)%len(users)], e.ID, e.TS, e.Lang, e.Keystrokes, e.Lines, e.Project, e.File, e.KeyFreq}, nil
					}))
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64((b.N+group-1)/group*group*benchEvents)/b.Elapsed().Seconds(), "events/s")
}
