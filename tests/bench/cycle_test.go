package bench

import (
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/testenv"
)

// quiet is the log of what is measured.
var quiet = slog.New(slog.DiscardHandler)

// site is an installation whose cycles are measured.
type site struct {
	db        *pgxpool.Pool
	finalizer *aggregate.Finalizer
	agg       *aggregate.Aggregator
	due       due
}

func newSite(b *testing.B, c crowd) *site {
	b.Helper()
	// What waits for the disk is the same on both sides, and would hide a difference.
	s := &site{db: testenv.StockPostgres(b, "synchronous_commit", "off"), finalizer: aggregate.NewFinalizer(outbox.Enqueue)}
	s.agg = aggregate.New(s.db, s.finalizer, clock.System{}, quiet, 2)
	b.Logf("%d users with %d sessions each: made in %v", c.users, c.sessions, timed(func() { c.seed(b, s.db) }).Round(time.Second))
	s.due = due{first: 1, users: c.users}
	return s
}

// cycle is the time of a cycle that finds n users due.
func (s *site) cycle(b *testing.B, n int) func() time.Duration {
	return func() time.Duration {
		if n > 0 {
			s.due.add(b, s.db, n)
		}
		var stats aggregate.Stats
		var err error
		took := timed(func() { stats, err = s.agg.Cycle(b.Context(), &noon) })
		require.NoError(b, err)
		require.Equal(b, n, stats.Finalized)
		require.Equal(b, n, stats.Sessions)
		return took
	}
}

// BenchmarkCycleHistory measures cycles with the same due work over 5,000,000 old sessions, against none.
func BenchmarkCycleHistory(b *testing.B) {
	users := scaled(5000, 200)
	sessions := scaled(5_000_000, 50_000) / users
	none := newSite(b, crowd{users: users})
	old := newSite(b, crowd{users: users, sessions: sessions, perDay: 4, daysAgo: 1})
	b.Run("due=200", func(b *testing.B) {
		_, took := duel(b, none.cycle(b, 200), old.cycle(b, 200))
		b.ReportMetric(200/took.Seconds(), "sessions/s")
	})
	b.Run("due=0", func(b *testing.B) { duel(b, none.cycle(b, 0), old.cycle(b, 0)) })
	b.Run("prune", func(b *testing.B) {
		duel(b, none.prune(b), old.prune(b))
	})
}

// prune is the time of the pruning that follows each cycle and finds nothing to prune.
func (s *site) prune(b *testing.B) func() time.Duration {
	p := aggregate.NewPruner(s.db, aggregate.PruneConfig{})
	return func() time.Duration {
		return timed(func() {
			_, err := p.Prune(b.Context())
			require.NoError(b, err)
		})
	}
}

// openUsers gives users first to last a session under way: an upload a minute for the last twenty, whose marks are merged.
func openUsers(b *testing.B, db *pgxpool.Pool, first, last int) {
	b.Helper()
	exec(b, db, `INSERT INTO hot_runs (user_id, first_s, last_s) SELECT `+uid+`, $3::bigint - 1140 - i % 60, $3::bigint - i % 60
		FROM generate_series($1::int, $2::int) i`, first, last, noon.Unix())
	exec(b, db, `INSERT INTO events (user_id, id, ts, lang, keystrokes, lines)
		SELECT `+uid+`, gen_random_uuid(), ($3::bigint - 60 * e - i % 60) * 1000, 'go', 5, 1
		FROM generate_series(19, 0, -1) e, generate_series($1::int, $2::int) i`, first, last, noon.Unix())
}

// BenchmarkCycleOpen measures cycles with ten users due among 200,000 whose sessions are open, against ten due alone.
func BenchmarkCycleOpen(b *testing.B) {
	const n = 10
	users := scaled(200_000, 2000)
	alone := newSite(b, crowd{users: 2000, sessions: 2, perDay: 2, daysAgo: 1})
	among := newSite(b, crowd{users: users + 2000, sessions: 2, perDay: 2, daysAgo: 1})
	among.due.users = 2000
	openUsers(b, among.db, 2001, users+2000)
	settle(b, among.db)
	b.Run("due=0", func(b *testing.B) { duel(b, alone.cycle(b, 0), among.cycle(b, 0)) })
	b.Run("due=10", func(b *testing.B) { duel(b, alone.cycle(b, n), among.cycle(b, n)) })
	few, many := alone.boards(b), among.boards(b)
	b.Run("publish=10", func(b *testing.B) { duel(b, few.publish(b, n), many.publish(b, n)) })
	b.Run("publish=0", func(b *testing.B) { duel(b, few.publish(b, 0), many.publish(b, 0)) })
	b.Run("merge", func(b *testing.B) { among.merge(b) })
	b.Run("merged/due=0", func(b *testing.B) { duel(b, alone.cycle(b, 0), among.cycle(b, 0)) })
}

// merge is the first cycle over marks that nobody has looked at yet: each is looked at once in its life.
func (s *site) merge(b *testing.B) {
	exec(b, s.db, `WITH merged AS (DELETE FROM hot_runs RETURNING user_id, last_s)
		INSERT INTO hot_runs (user_id, first_s, last_s) SELECT m.user_id, m.last_s - 60 * e, m.last_s - 60 * e
		FROM merged m CROSS JOIN generate_series(19, 0, -1) e ORDER BY e DESC`) // in the order in which they would have come
	settle(b, s.db)
	marks := count(b, s.db, "hot_runs")
	var took time.Duration
	for b.Loop() { // the first has everything to merge, the others nothing
		took += s.cycle(b, 0)()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.Seconds(), "s")
	b.ReportMetric(float64(marks), "marks")
	b.ReportMetric(float64(count(b, s.db, "hot_runs")), "marks-left")
}

// published is a site with boards.
type published struct {
	*site
	publisher *outbox.Publisher
}

// boards builds the boards of a site, in a Redis of its own.
func (s *site) boards(b *testing.B) published {
	b.Helper()
	rdb := newRedis(b)
	builder := leaderboard.NewBuilder(s.db, rdb, languages.Keys(), quiet)
	p := published{s, outbox.New(s.db, leaderboard.NewBoards(rdb), builder, languages.Keys())}
	_, err := p.publisher.Cycle(b.Context(), &noon)
	require.NoError(b, err)
	return p
}

// newRedis is a client of a Redis with an append-only file, as one should run in production.
func newRedis(b *testing.B) *redis.Client {
	b.Helper()
	o, err := redis.ParseURL(testenv.OwnDurableRedis(b).URL())
	require.NoError(b, err)
	rdb := redis.NewClient(o)
	b.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// publish is the time of the publisher's cycle after n users were finalized.
func (p published) publish(b *testing.B, n int) func() time.Duration {
	return func() time.Duration {
		p.cycle(b, n)()
		var stats outbox.Stats
		var err error
		took := timed(func() { stats, err = p.publisher.Cycle(b.Context(), &noon) })
		require.NoError(b, err)
		require.Equal(b, n, stats.Users)
		return took
	}
}
