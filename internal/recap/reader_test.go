package recap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var (
	now    = time.Date(2026, 6, 24, 9, 30, 0, 0, time.UTC)
	week   = recap.WeekOf(calendar.Date(2026, 6, 15))
	listed = []string{"go", "sql"}
)

type bundle struct {
	*recap.Reader
	t    *testing.T
	pool *pgxpool.Pool
}

func setup(t *testing.T) bundle {
	t.Helper()
	pool := testenv.Postgres(t)
	return bundle{Reader: recap.NewReader(pool, clock.NewManual(now), listed), t: t, pool: pool}
}

func (b bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b bundle) user(handle, zone string) uuid.UUID {
	b.t.Helper()
	id := uuid.New()
	b.exec(`INSERT INTO users (id, handle, token_hash) VALUES ($1, $2, '\x00')`, id, handle)
	b.exec(`INSERT INTO user_zones (user_id, from_s, zone) VALUES ($1, 0, $2)`, id, zone)
	return id
}

// works has a user code in a language from one instant to another, and makes sessions of it.
func (b bundle) works(id uuid.UUID, lang string, from, to time.Time) {
	b.t.Helper()
	b.exec(`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines)
		SELECT $1, gen_random_uuid(), n * 1000, $4, 1, 0 FROM generate_series($2::bigint, $3::bigint, 60) n`, id, from.Unix()+60, to.Unix(), lang)
	b.exec(`INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, $2, $3)`, id, from.Unix()+60, to.Unix())
	_, err := app.NewFinalizer(outbox.Enqueue).Finalize(b.t.Context(), b.pool, id, &now)
	require.NoError(b.t, err)
}

func at(day, hour, minute int) time.Time {
	return time.Date(2026, 6, day, hour, minute, 0, 0, time.UTC)
}

// A session that crosses both ends of the week gives it what lies in it, by the user's own days.
func TestARecapHasWhatLiesInTheWeek(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ada, other := b.user("ada", "Pacific/Kiritimati"), b.user("other", "UTC") // 14 hours ahead
	b.works(ada, "go", at(14, 9, 0), at(14, 11, 0))                           // an hour on each side of Monday's midnight
	b.works(ada, "sql", at(17, 0, 0), at(17, 0, 30))
	b.works(ada, "in-house", at(18, 0, 0), at(18, 0, 10))
	b.works(ada, "go", at(21, 9, 50), at(21, 10, 20)) // ten minutes of it in the week
	b.works(other, "go", at(16, 8, 0), at(16, 12, 0))

	r, err := b.Own(t.Context(), ada, week)
	require.NoError(t, err)
	require.EqualValues(t, 6600, r.Seconds)
	require.EqualValues(t, 3600, r.PriorSeconds)
	require.EqualValues(t, 4, r.Sessions)
	require.EqualValues(t, 3600, r.BestSeconds)
	require.NotEqual(t, uuid.Nil, r.BestID)
	require.Equal(t, "go", r.TopLang)
	require.Equal(t, []recap.Lang{{Key: "go", Seconds: 4200}, {Key: "sql", Seconds: 1800}, {Key: "in-house", Seconds: 600}}, r.Langs)
	require.Zero(t, r.OtherSeconds)
	require.EqualValues(t, 3600, r.Days[0].Seconds)
	require.EqualValues(t, 3600, r.Days[6].PriorSeconds)
	require.EqualValues(t, 600, r.Days[6].Seconds)
	require.EqualValues(t, 2, *r.Rank)
	require.EqualValues(t, 1, *r.PriorRank)
	require.EqualValues(t, -1, *r.RankDelta())
	require.InDelta(t, 83.3, *r.Change(), 0.001)
	require.Equal(t, now, r.AsOf)

	_, err = b.Own(t.Context(), uuid.New(), week)
	require.ErrorIs(t, err, recap.ErrUnknownUser)
}

// Random histories in several zones: a recap is the week's board, and what it has in parts adds up to it.
func TestRecapsEqualTheBoard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(7, 7))
	zones := []string{"UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu", "America/New_York", "Europe/Berlin"}
	users := make(map[uuid.UUID]bool)
	for i, zone := range zones {
		id := b.user(fmt.Sprint("user-", i), zone)
		users[id] = true
		for range 12 {
			from := at(6, 0, 0).Add(time.Duration(random.IntN(16*24*60)) * time.Minute)
			b.works(id, []string{"go", "sql", "odd"}[random.IntN(3)], from, from.Add(time.Duration(5+random.IntN(120))*time.Minute))
		}
	}
	b.exec(`UPDATE users SET privacy = 'off' WHERE handle = 'user-5'`)
	boards := leaderboard.NewReader(b.pool, testenv.Redis(t), leaderboard.ReaderConfig{Languages: listed})
	for _, w := range []recap.Week{week.Previous(), week} {
		span := calendar.SpanOf(calendar.PeriodWeek, w.Start())
		page, err := boards.Page(t.Context(), now.AddDate(1, 0, 0), leaderboard.Board{Span: span}, leaderboard.Query{Limit: 100})
		require.NoError(t, err)
		require.Len(t, page.Entries, 5)
		var walked []uuid.UUID
		require.NoError(t, b.Walk(t.Context(), w, uuid.Nil, func(r *recap.Addressed) error {
			walked = append(walked, r.UserID)
			own, err := b.Own(t.Context(), r.UserID, w)
			require.NoError(t, err)
			require.Equal(t, own, &r.Recap, "alone and among others")
			return nil
		}, nil))
		require.Len(t, walked, 5)
		for _, e := range page.Entries {
			r, err := b.Own(t.Context(), e.UserID, w)
			require.NoError(t, err)
			require.Equal(t, e.Seconds, r.Seconds)
			require.Equal(t, e.Rank, *r.Rank)
			require.Equal(t, e.Delta, r.RankDelta())
			require.Equal(t, *e.TopLang, r.TopLang)
			b.requireSums(r)
		}
	}
}

func (b bundle) requireSums(r *recap.Recap) {
	b.t.Helper()
	var days, prior, langs, sessions int64
	for _, d := range r.Days {
		days += d.Seconds
		prior += d.PriorSeconds
	}
	for _, l := range r.Langs {
		langs += l.Seconds
	}
	require.Equal(b.t, r.Seconds, days)
	require.Equal(b.t, r.PriorSeconds, prior)
	require.Equal(b.t, r.Seconds, langs+r.OtherSeconds)
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT sum(seconds), count(DISTINCT session_id) FROM session_seconds
		WHERE user_id = $1 AND day >= $2 AND day < $3`, r.UserID, r.Week.Start(), r.Week.End()).Scan(&days, &sessions))
	require.Equal(b.t, r.Seconds, days)
	require.Equal(b.t, sessions, r.Sessions)
}

// Who is on off reads a recap of their own, and is in nobody else's list nor rank.
func TestOffIsForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	off, ada := b.user("off", "UTC"), b.user("ada", "UTC")
	b.works(off, "go", at(16, 8, 0), at(16, 12, 0))
	b.works(ada, "go", at(16, 8, 0), at(16, 9, 0))
	b.exec(`UPDATE users SET privacy = 'off' WHERE id = $1`, off)
	r, err := b.Own(t.Context(), off, week)
	require.NoError(t, err)
	require.EqualValues(t, 4*3600, r.Seconds)
	require.Nil(t, r.Rank)
	r, err = b.Own(t.Context(), ada, week)
	require.NoError(t, err)
	require.EqualValues(t, 1, *r.Rank)
	ranks, err := b.Ranks(t.Context(), week)
	require.NoError(t, err)
	all, err := b.Of(t.Context(), week, ranks, []uuid.UUID{off, ada, uuid.New()})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, ada, all[0].UserID)
	require.EqualValues(t, 1, *all[0].Rank)
	require.False(t, all[0].Wanted)
}

// Names of languages that are not listed are shown to others of who is on full alone; the user sees them in any mode.
func TestUnlistedNamesAreForWhoSeesPaths(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, mode := range []string{"full", "summary"} {
		id := b.user(mode, "UTC")
		b.works(id, "go", at(16, 8, 0), at(16, 9, 0))
		b.works(id, "in-house", at(16, 10, 0), at(16, 10, 30))
		b.works(id, "unknown", at(16, 12, 0), at(16, 12, 20))
		b.exec(`UPDATE users SET privacy = $2 WHERE id = $1`, id, mode)
	}
	all := []recap.Lang{{Key: "go", Seconds: 3600}, {Key: "in-house", Seconds: 1800}, {Key: "unknown", Seconds: 1200}}
	shown := map[string][]recap.Lang{"full": all, "summary": {all[0], all[2]}}
	seen := 0
	require.NoError(t, b.WalkShown(t.Context(), week, uuid.Nil, func(r *recap.Addressed) error {
		seen++
		require.Equal(t, shown[r.Handle], r.Langs, r.Handle)
		b.requireSums(&r.Recap)
		own, err := b.Own(t.Context(), r.UserID, week)
		require.NoError(t, err)
		require.Equal(t, all, own.Langs)
		return nil
	}, nil))
	require.Equal(t, 2, seen)
	require.NoError(t, b.Walk(t.Context(), week, uuid.Nil, func(r *recap.Addressed) error {
		require.Equal(t, all, r.Langs, "a mail is the user's own")
		return nil
	}, nil))
}

// Few recaps are read one by one at a time; more are told to come back, and hold no connection while they wait.
func TestSingleRecapsAreBounded(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ada := b.user("ada", "UTC")
	b.works(ada, "go", at(16, 8, 0), at(16, 9, 0))
	own := func(ctx context.Context) error {
		_, err := b.Own(ctx, ada, week)
		return err
	}
	tx, err := b.pool.Begin(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(ctx)) })
	_, err = tx.Exec(ctx, `LOCK TABLE totals`)
	require.NoError(t, err)
	read := make(chan error, 3)
	for range 3 {
		go func() { read <- own(ctx) }()
	}
	testenv.AwaitWaiters(t, b.pool, 3)
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	require.ErrorIs(t, own(bounded), recap.ErrBusy)
	given, giveUp := context.WithCancel(ctx)
	giveUp()
	require.ErrorIs(t, own(given), context.Canceled)
	require.NoError(t, tx.Rollback(ctx))
	for range 3 {
		require.NoError(t, <-read)
	}
	for range 4 {
		require.NoError(t, own(ctx), "a place is given back")
	}
}

// More languages than are listed are added up, and more users than a page are all found, once, in order, from anywhere.
func TestWalkIsWholeAndBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO users (id, handle, token_hash) SELECT gen_random_uuid(), 'u-' || n, '\x00' FROM generate_series(1, 1300) n`)
	b.exec(`INSERT INTO totals (user_id, period, starts_on, lang, seconds)
		SELECT id, 'week', $1, l.lang, l.seconds FROM users CROSS JOIN (SELECT '' AS lang, 300 AS seconds UNION ALL
			SELECT 'lang-' || n, 10 FROM generate_series(1, 30) n) l WHERE handle NOT LIKE '%3'`, week.Start())
	var ids []uuid.UUID
	collect := func(r *recap.Addressed) error {
		ids = append(ids, r.UserID)
		require.Len(t, r.Langs, recap.MaxLangs)
		require.EqualValues(t, 100, r.OtherSeconds)
		require.Empty(t, r.TopLang)
		require.EqualValues(t, 1, *r.Rank)
		return nil
	}
	pages := 0
	require.NoError(t, b.Walk(t.Context(), week, uuid.Nil, collect, func() error { pages++; return nil }))
	require.Len(t, ids, 1170)
	require.Greater(t, pages, 5)
	for i := 1; i < len(ids); i++ {
		require.Less(t, ids[i-1].String(), ids[i].String())
	}
	whole := ids
	ids = nil
	require.NoError(t, b.Walk(t.Context(), week, whole[700], collect, nil))
	require.Equal(t, whole[701:], ids)

	looked := 0
	quiet := func() error { looked++; return nil }
	require.NoError(t, b.Walk(t.Context(), week.Previous(), uuid.Nil, func(*recap.Addressed) error { return errors.New("active") }, quiet))
	require.Equal(t, 2, looked, "a look that finds nobody is told, too")

	stop := errors.New("stop")
	require.ErrorIs(t, b.Walk(t.Context(), week, uuid.Nil, func(*recap.Addressed) error { return stop }, nil), stop)
	require.ErrorIs(t, b.Walk(t.Context(), week, uuid.Nil, collect, func() error { return stop }), stop)
}
