package aggregate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/testenv"
)

// BenchmarkBuild builds a long working day: an event a minute in two languages.
func BenchmarkBuild(b *testing.B) {
	events := make([]activity.Event, 600)
	for i := range events {
		events[i] = at(noon+int64(i)*60, []string{"go", "sql"}[i/7%2], int32(i%200))
	}
	zones := Zones{{0, "Europe/Berlin"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(Fold(slices.Clone(events)), zones); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(events))/b.Elapsed().Seconds(), "events/s")
}

// benchHot makes users with sessions of twenty events each, the last of them at end.
func benchHot(b *testing.B, users, sessions int, end int64) *Aggregator {
	b.Helper()
	pool := testenv.Postgres(b)
	ids := make([]uuid.UUID, users)
	for i := range ids {
		ids[i] = uuid.New()
	}
	copyIn := func(table string, columns []string, n int, row func(i int) []any) {
		_, err := pool.CopyFrom(b.Context(), pgx.Identifier{table}, columns, pgx.CopyFromSlice(n, func(i int) ([]any, error) { return row(i), nil }))
		require.NoError(b, err)
	}
	copyIn("users", []string{"id", "handle", "token_hash"}, users, func(i int) []any { return []any{ids[i], fmt.Sprintf("user-%d", i), []byte{0}} })
	copyIn("user_zones", []string{"user_id", "from_s", "zone"}, users, func(i int) []any { return []any{ids[i], 0, "Europe/Berlin"} })
	last := func(session int) int64 { return end - int64(session)*7200 }
	copyIn("events", []string{"user_id", "id", "ts", "lang", "keystrokes", "lines"}, users*sessions*20, func(i int) []any {
		n := i / users
		return []any{ids[i%users], uuid.New(), (last(n/20) - int64(n%20)*60) * 1000, "go", 5, 1}
	})
	copyIn("hot_runs", []string{"user_id", "first_s", "last_s"}, users*sessions, func(i int) []any {
		return []any{ids[i%users], last(i/users) - 19*60, last(i / users)}
	})
	return New(pool, NewFinalizer(enqueue), clock.System{}, testenv.Logger(b), 2)
}

// BenchmarkFinalize finalizes users with three sessions each.
func BenchmarkFinalize(b *testing.B) {
	agg := benchHot(b, b.N, 3, noon)
	now := time.Unix(noon+5000, 0)
	b.ResetTimer()
	s, err := agg.Cycle(b.Context(), &now)
	b.StopTimer()
	require.NoError(b, err)
	require.Equal(b, 3*b.N, s.Sessions)
	b.ReportMetric(float64(s.Sessions)/b.Elapsed().Seconds(), "sessions/s")
}

// BenchmarkNothingDue looks for due users among 60,000 hot events of 3,000 users whose sessions are open.
func BenchmarkNothingDue(b *testing.B) {
	agg := benchHot(b, 3000, 1, noon)
	now := time.Unix(noon+600, 0)
	b.ResetTimer()
	for range b.N {
		s, err := agg.Cycle(b.Context(), &now)
		require.NoError(b, err)
		require.Zero(b, s.Due)
	}
}
