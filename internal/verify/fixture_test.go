package verify

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var testLangs = []string{"c", "c++", "go", "rust"}

// noon is the present of these tests: the middle of a UTC day, week and month.
var noon = time.Date(2026, time.June, 17, 12, 0, 0, 0, time.UTC)

var today = calendar.DayOf(noon)

// fixture is a small installation in which everything is finalized and published.
type fixture struct {
	t       *testing.T
	ctx     context.Context
	pool    *pgxpool.Pool
	rdb     redis.UniversalClient
	agg     *aggregate.Aggregator
	checker *Checker
}

func newFixture(t testing.TB, users int) *fixture {
	t.Helper()
	pool, rdb := testenv.Postgres(t), testenv.Redis(t)
	f := &fixture{ctx: t.Context(), pool: pool, rdb: rdb}
	log := testenv.Logger(t)
	finalizer := aggregate.NewFinalizer(outbox.Enqueue)
	builder := leaderboard.NewBuilder(pool, rdb, testLangs, log)
	boards := leaderboard.NewBoards(rdb)
	f.agg = aggregate.New(pool, finalizer, clock.System{}, log, 2)
	f.checker = New(Deps{
		DB: pool, Finalizer: finalizer, Boards: leaderboard.NewVerifier(pool, rdb, testLangs), Builder: builder,
		Publisher: outbox.New(pool, boards, builder, testLangs), Clock: clock.System{}, Now: &noon, Log: log,
	})
	f.seed(t, users)
	return f
}

// userID is the n-th of ids that sort like their numbers.
func userID(n int) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func boardOf(p calendar.Period, lang string) leaderboard.Board {
	return leaderboard.Board{Span: calendar.SpanOf(p, today), Lang: lang}
}

// seed gives each user sessions on six days of three months, in two languages, and finalizes and publishes them.
func (f *fixture) seed(t testing.TB, users int) {
	t.Helper()
	exec := func(sql string, args ...any) {
		_, err := f.pool.Exec(f.ctx, sql, args...)
		require.NoError(t, err)
	}
	exec(`INSERT INTO users (id, handle, token_hash) SELECT lpad(to_hex(i), 32, '0')::uuid, 'u' || i, ''
		FROM generate_series(1, $1::int) i`, users)
	exec(`INSERT INTO user_zones SELECT id, 0, 'UTC' FROM users`)
	for _, back := range []int{0, 1, 2, 5, 20, 50} {
		at := noon.AddDate(0, 0, -back).Add(-3 * time.Hour).Unix()
		f.upload(t, at, users)
	}
	f.settle(t)
}

// upload appends a run of three events of each user, a few seconds later for each.
func (f *fixture) upload(t testing.TB, at int64, users int) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(f.ctx, `INSERT INTO events (user_id, id, ts, lang, keystrokes, lines)
			SELECT lpad(to_hex(i), 32, '0')::uuid, gen_random_uuid(), 1000 * ($1::bigint + n * (200 + i % 400)),
				CASE n WHEN 1 THEN 'rust' ELSE 'go' END, 10, 1
			FROM generate_series(1, $2::int) i, generate_series(0, 2) n`, at, users)
		if err != nil {
			return err
		}
		_, err = tx.Exec(f.ctx, `INSERT INTO hot_runs (user_id, first_s, last_s)
			SELECT lpad(to_hex(i), 32, '0')::uuid, $1::bigint, $1::bigint + 2 * (200 + i % 400) FROM generate_series(1, $2::int) i`, at, users)
		return err
	}))
}

func (f *fixture) settle(t testing.TB) {
	t.Helper()
	_, err := f.agg.Cycle(f.ctx, &noon)
	require.NoError(t, err)
	s, err := f.checker.Publisher.Cycle(f.ctx, &noon)
	require.NoError(t, err)
	require.Zero(t, s.Left)
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	tag, err := f.pool.Exec(f.ctx, sql, args...)
	require.NoError(f.t, err)
	require.EqualValues(f.t, 1, tag.RowsAffected(), "the plant changes one row")
}

func (f *fixture) check(heal bool) Result {
	f.t.Helper()
	r, err := f.checker.All(f.ctx, Options{Heal: heal, Page: 37})
	require.NoError(f.t, err)
	return r
}

// stored is everything that the checks compare, as one text per row.
func (f *fixture) stored() map[string][]string {
	f.t.Helper()
	out := map[string][]string{}
	for name, sql := range map[string]string{
		"totals":  `SELECT t::text FROM totals t ORDER BY 1`,
		"seconds": `SELECT s::text FROM session_seconds s ORDER BY 1`,
		"streaks": `SELECT concat_ws(' ', id, streak_first_on, streak_last_on, longest_streak_days) FROM users ORDER BY 1`,
		"outbox":  `SELECT o::text FROM outbox o`,
	} {
		rows, err := f.pool.Query(f.ctx, sql)
		require.NoError(f.t, err)
		out[name], err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(f.t, err)
	}
	// A board that healing removed or that was never built is made now.
	_, err := f.checker.Publisher.Cycle(f.ctx, &noon)
	require.NoError(f.t, err)
	for _, span := range calendar.Kept(noon) {
		for _, lang := range append([]string{""}, testLangs...) {
			b := leaderboard.Board{Span: span, Lang: lang}
			whole, err := leaderboard.NewBoards(f.rdb).Walk(f.ctx, b, func(p leaderboard.Place) bool {
				out["boards"] = append(out["boards"], time.Duration(p.Seconds).String()+p.User.String()+string(b.Period)+b.StartsOn.String()+lang)
				return true
			})
			require.NoError(f.t, err)
			if !whole {
				out["unbuilt"] = append(out["unbuilt"], string(b.Period)+b.StartsOn.String()+lang)
			}
		}
	}
	return out
}
