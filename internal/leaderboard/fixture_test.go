package leaderboard

import (
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var testLangs = []string{"c", "c#", "c++", "go"}

// noon is the present of these tests: the middle of a UTC day, week and month.
var noon = time.Date(2026, time.June, 17, 12, 0, 0, 0, time.UTC)

var today = calendar.DayOf(noon)

func boardOf(p calendar.Period, lang string) Board {
	return Board{Span: calendar.SpanOf(p, today), Lang: lang}
}

type fixture struct {
	t       *testing.T
	ctx     context.Context
	pool    *pgxpool.Pool
	rdb     redis.UniversalClient
	boards  *Boards
	builder *Builder
	reader  *Reader
	missing chan Board
}

func newFixture(t *testing.T) *fixture { return fixtureOn(t, testenv.Redis(t)) }

func fixtureOn(t *testing.T, rdb redis.UniversalClient) *fixture {
	pool := testenv.Postgres(t)
	f := &fixture{
		t: t, ctx: t.Context(), pool: pool, rdb: rdb, boards: NewBoards(rdb),
		builder: NewBuilder(pool, rdb, testLangs, slog.New(slog.DiscardHandler)), missing: make(chan Board, 100),
	}
	f.reader = NewReader(pool, rdb, ReaderConfig{
		MissingFunc: func(b Board) { f.missing <- b }, Log: testenv.Logger(t), RedisTimeout: 5 * time.Second,
	})
	return f
}

func openRedis(t *testing.T, url string) *redis.Client {
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// userID is the n-th of ids that sort like their numbers. It is never uuid.Nil for n > 0.
func userID(n int) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(f.ctx, sql, args...)
	require.NoError(f.t, err)
}

// user makes the n-th user.
func (f *fixture) user(n int, privacy string) uuid.UUID {
	f.t.Helper()
	id := userID(n)
	f.exec(`INSERT INTO users (id, handle, token_hash, privacy, version) VALUES ($1, $2, '', $3, 1)`,
		id, "u"+id.String()[24:], privacy)
	f.exec(`INSERT INTO user_zones VALUES ($1, 0, 'UTC')`, id)
	return id
}

// total sets one of a user's totals.
func (f *fixture) total(id uuid.UUID, b Board, seconds int64) {
	f.t.Helper()
	f.exec(`INSERT INTO totals VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (user_id, period, starts_on, lang) DO UPDATE SET seconds = excluded.seconds`,
		id, b.Period, b.StartsOn, b.Lang, seconds)
}

func (f *fixture) build(b Board) string {
	f.t.Helper()
	built, err := f.builder.Build(f.ctx, b)
	require.NoError(f.t, err)
	return built.Generation
}

// publish publishes one row that was read now with the given generation.
func (f *fixture) publish(b Board, generation string, row Row) Outcome {
	f.t.Helper()
	now, err := f.boards.Time(f.ctx)
	require.NoError(f.t, err)
	o, err := f.boards.Publish(f.ctx, []Publication{{Board: b, Generation: generation, ReadAt: now, Rows: []Row{row}}})
	require.NoError(f.t, err)
	return o[0]
}

// scores are the places on a board in Redis, or nil when it is not whole.
func (f *fixture) scores(b Board) map[uuid.UUID]int64 {
	f.t.Helper()
	scores := map[uuid.UUID]int64{}
	whole, err := f.boards.Walk(f.ctx, b, func(p Place) bool {
		require.NotContains(f.t, scores, p.User)
		scores[p.User] = p.Seconds
		return true
	})
	require.NoError(f.t, err)
	if !whole {
		return nil
	}
	return scores
}

func (f *fixture) keys(pattern string) []string {
	f.t.Helper()
	keys, err := f.rdb.Keys(f.ctx, pattern).Result()
	require.NoError(f.t, err)
	// That a build has ended is remembered beside everything else.
	return slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, ":over:") })
}
