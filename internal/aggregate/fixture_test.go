package aggregate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is an aggregator over a database of its own, and a model of what must stand in it.
type fixture struct {
	t    *testing.T
	pool *pgxpool.Pool
	agg  *Aggregator
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	pool := testenv.Postgres(t)
	return &fixture{t: t, pool: pool, agg: New(pool, NewFinalizer(enqueue), clock.System{}, testenv.Logger(t), 4)}
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(f.t.Context(), sql, args...)
	require.NoError(f.t, err)
}

// user creates a user. What is not under test here is written as plainly as it can be.
func (f *fixture) user(zone string, mode activity.Mode) uuid.UUID {
	f.t.Helper()
	id := uuid.New()
	f.exec(`INSERT INTO users (id, handle, token_hash, privacy) VALUES ($1, $2, '\x00', $3)`, id, strings.ReplaceAll(id.String(), "-", ""), mode)
	f.exec(`INSERT INTO user_zones VALUES ($1, 0, $2)`, id, zone)
	return id
}

// upload appends events as ingest does: each batch with a mark per run.
func (f *fixture) upload(user uuid.UUID, events ...activity.Event) {
	f.t.Helper()
	require.NoError(f.t, pgx.BeginFunc(f.t.Context(), f.pool, func(tx pgx.Tx) error {
		ctx := f.t.Context()
		for _, run := range Runs(Fold(slices.Clone(events))) {
			if _, err := tx.Exec(ctx, `INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, $2, $3)`,
				user, run[0].Second(), run[len(run)-1].Second()); err != nil {
				return err
			}
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"events"},
			[]string{"user_id", "id", "ts", "lang", "keystrokes", "lines", "project", "file", "key_freq"},
			pgx.CopyFromSlice(len(events), func(i int) ([]any, error) {
				e := events[i]
				return []any{user, e.ID, e.TS, e.Lang, e.Keystrokes, e.Lines, orNull(e.Project), orNull(e.File), orNull(e.KeyFreq)}, nil
			}))
		return err
	}))
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// cycle runs one cycle as if it were now, in seconds since the epoch.
func (f *fixture) cycle(now int64) Stats {
	f.t.Helper()
	at := time.Unix(now, 0)
	s, err := f.agg.Cycle(f.t.Context(), &at)
	require.NoError(f.t, err)
	return s
}

func query[T any](f *fixture, sql string, args ...any) []T {
	f.t.Helper()
	rows, err := f.pool.Query(f.t.Context(), sql, args...)
	require.NoError(f.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	require.NoError(f.t, err)
	return out
}

func (f *fixture) count(sql string, args ...any) (n int64) {
	f.t.Helper()
	require.NoError(f.t, f.pool.QueryRow(f.t.Context(), sql, args...).Scan(&n))
	return n
}

type sessionRow struct {
	Started, Ended, Events, Keystrokes, Lines int64
	Zone, TopLang                             string
}

type totalRow struct {
	Period   calendar.Period
	StartsOn calendar.Day
	Lang     string
	Seconds  int64
}

type streakRow struct {
	First, Last *calendar.Day
	Longest     int64
}

// requireStands checks that what is stored of a user is exactly what one pass over events builds.
func (f *fixture) requireStands(user uuid.UUID, zones Zones, events ...activity.Event) {
	f.t.Helper()
	sessions, err := Build(Fold(slices.Clone(events)), zones)
	require.NoError(f.t, err)

	wantSessions := []sessionRow{}
	sums := map[DayLang]int64{}
	for _, s := range sessions {
		wantSessions = append(wantSessions, sessionRow{s.StartedAt(), s.Last, int64(len(s.Events)), s.Keystrokes, s.Lines, s.Zone, s.TopLang})
		for k, n := range s.Seconds {
			sums[k] += n
		}
	}
	wantTotals := []totalRow{}
	days := map[calendar.Day]bool{}
	for _, d := range totalDeltas(sums) {
		wantTotals = append(wantTotals, totalRow{d.span.Period, d.span.StartsOn, d.lang, d.seconds})
	}
	for k := range sums {
		days[k.Day] = true
	}

	require.Equal(f.t, wantSessions, query[sessionRow](f, `SELECT extract(epoch FROM started_at)::bigint, extract(epoch FROM ended_at)::bigint,
		events, keystrokes, lines, zone, top_lang FROM sessions WHERE user_id = $1 ORDER BY started_at`, user))
	require.Equal(f.t, wantTotals, query[totalRow](f, `SELECT period, starts_on, lang, seconds FROM totals
		WHERE user_id = $1 AND seconds > 0 ORDER BY period, starts_on, lang`, user))
	require.Equal(f.t, []streakRow{streakFromDays(days)}, query[streakRow](f,
		`SELECT streak_first_on, streak_last_on, longest_streak_days FROM users WHERE id = $1`, user))
	require.EqualValues(f.t, len(wantSessions), f.count(`SELECT session_count FROM users WHERE id = $1`, user))
	require.Zero(f.t, f.count(`SELECT count(*) FROM sessions s WHERE user_id = $1 AND extract(epoch FROM ended_at - started_at)
		<> (SELECT sum(seconds) FROM session_seconds t WHERE t.session_id = s.id)`, user), "seconds add up to each session")
	require.Zero(f.t, f.count(`SELECT count(*) FROM session_seconds t WHERE user_id = $1
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = t.session_id)`, user), "no seconds without a session")
}

func streakFromDays(days map[calendar.Day]bool) streakRow {
	var r streakRow
	var sorted []calendar.Day
	for d := range days {
		sorted = append(sorted, d)
	}
	slices.Sort(sorted)
	var first calendar.Day
	for i, d := range sorted {
		if i == 0 || d != sorted[i-1]+1 {
			first = d
		}
		r.First, r.Last = &first, &sorted[i]
		r.Longest = max(r.Longest, int64(d-first)+1)
	}
	if r.First != nil {
		v := *r.First
		r.First = &v
	}
	return r
}

func enqueue(ctx context.Context, db dbsqlc.DBTX, user uuid.UUID, version int64) error {
	_, err := db.Exec(ctx, `INSERT INTO outbox (user_id, version) VALUES ($1, $2)
		ON CONFLICT (user_id) DO UPDATE SET version = excluded.version`, user, version)
	return err
}
