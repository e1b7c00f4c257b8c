package outbox

import (
	"context"
	"encoding/binary"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var testLangs = []string{"c", "c#", "c++", "go"}

// noon is the present of these tests: the middle of a UTC day, week and month.
var noon = time.Date(2026, time.June, 17, 12, 0, 0, 0, time.UTC)

var today = calendar.DayOf(noon)

func boardOf(p calendar.Period, lang string) leaderboard.Board {
	return leaderboard.Board{Span: calendar.SpanOf(p, today), Lang: lang}
}

type fixture struct {
	t    *testing.T
	ctx  context.Context
	pool *pgxpool.Pool
	rdb  redis.UniversalClient
	*process
}

// process is what one process has: its own clients of boards, its own memory of generations.
type process struct {
	boards    *leaderboard.Boards
	builder   *leaderboard.Builder
	publisher *Publisher
}

func newProcess(db dbsqlc.DBTX, rdb redis.UniversalClient) *process {
	p := &process{boards: leaderboard.NewBoards(rdb)}
	p.builder = leaderboard.NewBuilder(db, rdb, testLangs, slog.New(slog.DiscardHandler))
	p.publisher = New(db, p.boards, p.builder, testLangs)
	return p
}

func newFixture(t *testing.T) *fixture { return fixtureOn(t, testenv.Redis(t)) }

func fixtureOn(t *testing.T, rdb redis.UniversalClient) *fixture {
	pool := testenv.Postgres(t)
	return &fixture{t: t, ctx: t.Context(), pool: pool, rdb: rdb, process: newProcess(pool, rdb)}
}

func openRedis(t *testing.T, url string) *redis.Client {
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	o.ContextTimeoutEnabled, o.MaxRetries, o.DialTimeout = true, -1, time.Second
	o.DialerRetries = 1
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// userID is the n-th of ids that sort like their numbers.
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

func (f *fixture) count(sql string, args ...any) (n int) {
	f.t.Helper()
	require.NoError(f.t, f.pool.QueryRow(f.ctx, sql, args...).Scan(&n))
	return n
}

func (f *fixture) user(n int) uuid.UUID {
	f.t.Helper()
	id := userID(n)
	f.exec(`INSERT INTO users (id, handle, token_hash) VALUES ($1, $2, '')`, id, "u"+id.String()[24:])
	return id
}

// users makes users 1 to n.
func (f *fixture) users(n int) {
	f.t.Helper()
	f.exec(`INSERT INTO users (id, handle, token_hash)
		SELECT lpad(to_hex(i), 32, '0')::uuid, 'u' || i, '' FROM generate_series(1, $1::int) i`, n)
}

// change does to a user what a finalize does: new totals of some boards, a newer version, and the outbox row.
func (f *fixture) change(id uuid.UUID, seconds int64, boards ...leaderboard.Board) {
	f.t.Helper()
	err := store.WithTx(f.ctx, f.pool, func(ctx context.Context, tx pgx.Tx) error {
		for _, b := range boards {
			if _, err := tx.Exec(ctx, `INSERT INTO totals VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (user_id, period, starts_on, lang) DO UPDATE SET seconds = excluded.seconds`,
				id, b.Period, b.StartsOn, b.Lang, seconds); err != nil {
				return err
			}
		}
		return raise(ctx, tx, id)
	})
	require.NoError(f.t, err)
}

// raise gives a user a new version and makes it pending.
func raise(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	var version int64
	if err := tx.QueryRow(ctx, `UPDATE users SET version = version + 1 WHERE id = $1 RETURNING version`, id).Scan(&version); err != nil {
		return err
	}
	return Enqueue(ctx, tx, id, version)
}

func (f *fixture) setPrivacy(id uuid.UUID, mode string) {
	f.t.Helper()
	f.exec(`UPDATE users SET privacy = $2 WHERE id = $1`, id, mode)
	f.change(id, 0)
}

// delete does what deleting a user does.
func (f *fixture) delete(id uuid.UUID) {
	f.t.Helper()
	f.change(id, 0)
	f.exec(`WITH gone AS (DELETE FROM totals WHERE user_id = $1) DELETE FROM users WHERE id = $1`, id)
}

// spread are one board of each period, for all languages and for one.
func spread(lang string) []leaderboard.Board {
	var boards []leaderboard.Board
	for _, p := range calendar.Periods {
		boards = append(boards, boardOf(p, ""), boardOf(p, lang))
	}
	return boards
}

func (f *fixture) publish() Stats {
	f.t.Helper()
	s, err := f.publisher.PublishPending(f.ctx, &noon)
	require.NoError(f.t, err)
	return s
}

func (f *fixture) cycle() Stats {
	f.t.Helper()
	s, err := f.publisher.Cycle(f.ctx, &noon)
	require.NoError(f.t, err)
	return s
}

func (f *fixture) pending() int { return f.count(`SELECT count(*) FROM outbox`) }

// scores are the places on a board in Redis, and false when it is not whole.
func (f *fixture) scores(b leaderboard.Board) (map[uuid.UUID]int64, bool) {
	f.t.Helper()
	scores := map[uuid.UUID]int64{}
	whole, err := f.boards.Walk(f.ctx, b, func(p leaderboard.Place) bool { scores[p.User] = p.Seconds; return true })
	require.NoError(f.t, err)
	return scores, whole
}

// requireBoards checks every kept board against the totals. A board may be absent where nobody has seconds, or with
// mayLack anywhere; it may not be different.
func (f *fixture) requireBoards(mayLack bool) {
	f.t.Helper()
	for _, span := range calendar.Kept(noon) {
		for _, lang := range append([]string{""}, testLangs...) {
			b := leaderboard.Board{Span: span, Lang: lang}
			rows, err := f.pool.Query(f.ctx, `SELECT t.user_id, t.seconds FROM totals t JOIN users u ON u.id = t.user_id
				WHERE u.privacy <> 'off' AND t.seconds > 0 AND (t.period, t.starts_on, t.lang) = ($1, $2, $3)`,
				b.Period, b.StartsOn, b.Lang)
			require.NoError(f.t, err)
			want := map[uuid.UUID]int64{}
			var id uuid.UUID
			var seconds int64
			_, err = pgx.ForEachRow(rows, []any{&id, &seconds}, func() error { want[id] = seconds; return nil })
			require.NoError(f.t, err)
			if got, whole := f.scores(b); whole || len(want) > 0 && !mayLack {
				require.True(f.t, whole, "%v is missing", b)
				require.Equal(f.t, want, got, "%v", b)
			}
		}
	}
}

// stopDB calls a function once after a statement of one name was answered.
type stopDB struct {
	dbsqlc.DBTX
	name string
	done atomic.Bool
	fn   func()
}

func (s *stopDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := s.DBTX.Query(ctx, sql, args...)
	if err != nil || !strings.HasPrefix(sql, "-- name: "+s.name+" ") {
		return rows, err
	}
	// The first row is waited for: until then the statement may not have been run.
	peeked := &peekedRows{Rows: rows, more: rows.Next(), peeked: true}
	if s.done.CompareAndSwap(false, true) {
		over := false
		defer func() {
			if !over { // the test failed in it: give the connection back
				rows.Close()
			}
		}()
		s.fn() // may come back here
		over = true
	}
	return peeked, nil
}

// peekedRows are rows of which the first was fetched already.
type peekedRows struct {
	pgx.Rows
	peeked, more bool
}

func (r *peekedRows) Next() bool {
	if r.peeked {
		r.peeked = false
		return r.more
	}
	return r.Rows.Next()
}

// stopAfter makes a process that does something between two of its statements: after the first of the given name was
// answered, and before the next step.
func (f *fixture) stopAfter(name string, fn func()) *process {
	return newProcess(&stopDB{DBTX: f.pool, name: name, fn: fn}, f.rdb)
}

// stopNext does the same to the next round of a publisher that has been running for a while.
func (f *fixture) stopNext(p *Publisher, fn func()) {
	p.db = &stopDB{DBTX: f.pool, name: "OutboxReadMany", fn: fn}
}
