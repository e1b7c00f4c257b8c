package sessions_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var start = time.Date(2026, 6, 15, 8, 42, 0, 0, time.UTC)

type bundle struct {
	*sessions.Reader
	pool *pgxpool.Pool
	user uuid.UUID
}

func setup(t *testing.T) bundle {
	t.Helper()
	pool := testenv.Postgres(t)
	b := bundle{Reader: sessions.NewReader(pool), pool: pool}
	b.user = b.mustUser(t, activity.ModeFull)
	return b
}

func (b bundle) mustUser(t *testing.T, mode activity.Mode) uuid.UUID {
	t.Helper()
	id := uuid.New()
	b.exec(t, `INSERT INTO users (id, handle, token_hash, privacy) VALUES ($1, $2, '', $3)`, id, id.String(), mode)
	return id
}

func (b bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(context.Background(), sql, args...)
	require.NoError(t, err)
}

// mustSession plants a session as the finalizer writes it.
func (b bundle) mustSession(t *testing.T, user uuid.UUID, at time.Time, length time.Duration, keystrokes int64) uuid.UUID {
	t.Helper()
	id := uuid.New()
	b.exec(t, `INSERT INTO sessions (id, user_id, started_at, ended_at, zone, events, keystrokes, lines, top_lang, peak_cpm, peak_at)
		VALUES ($1, $2, $3, $4, 'UTC', 1, $5, -3, 'typescript', 241, $3)`, id, user, at, at.Add(length), keystrokes)
	return id
}

func (b bundle) mustSeconds(t *testing.T, session uuid.UUID, day, lang string, seconds int64) {
	t.Helper()
	b.exec(t, `INSERT INTO session_seconds (user_id, session_id, day, lang, seconds) VALUES ($1, $2, $3::text::date, $4, $5)`,
		b.user, session, day, lang, seconds)
}

func ids(list []sessions.Session) []uuid.UUID {
	var out []uuid.UUID
	for _, s := range list {
		out = append(out, s.ID)
	}
	return out
}

// Equal starts occur: they must neither repeat nor be lost where a page ends between them.
func TestListWalksAllPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stranger := uuid.New()
	var want []uuid.UUID
	for i := range 7 {
		at := start.Add(time.Duration(i/3) * time.Hour)
		want = append(want, b.mustSession(t, b.user, at, time.Minute, 1))
		b.mustSession(t, stranger, at, time.Minute, 1)
	}
	slices.SortFunc(want[0:3], func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	slices.SortFunc(want[3:6], func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	slices.Reverse(want)

	for limit := 1; limit <= 8; limit++ {
		var got []uuid.UUID
		var after *sessions.Cursor
		for {
			page, err := b.List(t.Context(), b.user, b.user, after, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Sessions), limit)
			got = append(got, ids(page.Sessions)...)
			if page.Next == nil {
				break
			}
			require.NotEmpty(t, page.Sessions)
			c, err := sessions.ParseCursor(page.Next.String()) // as a client sends it
			require.NoError(t, err)
			after = &c
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
}

func TestListOfNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	page, err := b.List(t.Context(), b.user, b.user, nil, 20)
	require.NoError(t, err)
	require.Empty(t, page.Sessions)
	require.Nil(t, page.Next)
	page, err = b.List(t.Context(), b.user, b.user, &sessions.Cursor{}, 20) // before all time
	require.NoError(t, err)
	require.Empty(t, page.Sessions)
}

func TestGet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.mustSession(t, b.user, start, 2*time.Hour, 1<<40)
	b.mustSeconds(t, id, "2026-06-15", "c++", 3000)
	b.mustSeconds(t, id, "2026-06-16", "c++", 1<<33)
	b.mustSeconds(t, id, "2026-06-16", "go", 4200)
	b.exec(t, `INSERT INTO session_details (user_id, session_id, files, key_counts) VALUES ($1, $2,
		'[{"path":"a\\b\u00fc.ts","changes":9000000000},{"path":"z","changes":1}]', '{"a":6000000000,"Space":4}')`, b.user, id)

	d, err := b.Get(t.Context(), b.user, id)
	require.NoError(t, err)
	require.Equal(t, &sessions.Detail{
		Session: sessions.Session{
			ID: id, StartedAt: start, EndedAt: start.Add(2 * time.Hour), Keystrokes: 1 << 40, Lines: -3, TopLang: "typescript",
		},
		PeakCPM:   241,
		PeakAt:    start,
		Langs:     []sessions.LangSeconds{{Lang: "c++", Seconds: 1<<33 + 3000}, {Lang: "go", Seconds: 4200}},
		Files:     []sessions.File{{Path: `a\bü.ts`, Changes: 9_000_000_000}, {Path: "z", Changes: 1}},
		KeyCounts: map[string]int64{"a": 6_000_000_000, "Space": 4},
	}, d)
}

// Names of languages are the user's own, and there may be as many as events: the answer must not grow with them.
func TestGetListsTheLargestLanguages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.mustSession(t, b.user, start, 2*time.Hour, 1)
	b.exec(t, `INSERT INTO session_seconds (user_id, session_id, day, lang, seconds)
		SELECT $1, $2, d, 'x' || lpad(n::text, 5, '0'), CASE WHEN n > 29950 THEN 7 ELSE 1 END
		  FROM generate_series(1, 30000) n, (VALUES ('2026-06-15'::date), ('2026-06-16')) days(d)`, b.user, id)
	d, err := b.Get(t.Context(), b.user, id)
	require.NoError(t, err)
	require.Len(t, d.Langs, sessions.MaxLangs)
	require.Equal(t, sessions.LangSeconds{Lang: "x29951", Seconds: 14}, d.Langs[0])
	require.Equal(t, sessions.LangSeconds{Lang: "x00001", Seconds: 2}, d.Langs[50])
	require.Equal(t, sessions.LangSeconds{Lang: "x00050", Seconds: 2}, d.Langs[99])
	sum := d.OtherSeconds
	for _, l := range d.Langs {
		sum += l.Seconds
	}
	require.EqualValues(t, 50*14+29_950*2, sum)
}

// A user on summary has no details row, or one without values.
func TestGetWithoutDetails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	none := b.mustSession(t, b.user, start, time.Hour, 1)
	empty := b.mustSession(t, b.user, start.Add(2*time.Hour), time.Hour, 1)
	b.exec(t, `INSERT INTO session_details (user_id, session_id) VALUES ($1, $2)`, b.user, empty)
	for _, id := range []uuid.UUID{none, empty} {
		d, err := b.Get(t.Context(), b.user, id)
		require.NoError(t, err)
		require.Empty(t, d.Files)
		require.Nil(t, d.KeyCounts)
		require.Empty(t, d.Langs)
	}
}

func TestGetAbsorbedLeadsToHeir(t *testing.T) {
	t.Parallel()
	b := setup(t)
	heir, absorbed := b.mustSession(t, b.user, start, time.Hour, 1), uuid.New()
	b.exec(t, `INSERT INTO session_aliases (id, user_id, heir) VALUES ($1, $2, $3)`, absorbed, b.user, heir)
	d, err := b.Get(t.Context(), b.user, absorbed)
	require.NoError(t, err)
	require.Equal(t, heir, d.ID)

	b.exec(t, `UPDATE users SET privacy = 'off'`)
	for _, find := range []func(uuid.UUID) error{
		func(viewer uuid.UUID) error { _, err := b.Find(t.Context(), viewer, absorbed); return err },
		func(viewer uuid.UUID) error { _, err := b.Get(t.Context(), viewer, absorbed); return err },
	} {
		require.NoError(t, find(b.user))
		require.ErrorIs(t, find(uuid.New()), sessions.ErrNotFound)
	}
}

// Who sees what of a session; what is hidden is as absent as what never was.
func TestGetShowsWhatTheViewerMaySee(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for mode, others := range map[activity.Mode]privacy.Access{
		activity.ModeFull: privacy.WithPaths, activity.ModeSummary: privacy.WithoutPaths, activity.ModeOff: privacy.Hidden,
	} {
		owner := b.mustUser(t, mode)
		id := b.mustSession(t, owner, start, time.Hour, 1)
		// None are kept outside of full. Should one be, it is nobody else's.
		b.exec(t, `INSERT INTO session_details (user_id, session_id, files, key_counts)
			VALUES ($1, $2, '[{"path":"secret","changes":1}]', '{"a":1}')`, owner, id)
		b.exec(t, `INSERT INTO session_seconds (user_id, session_id, day, lang, seconds)
			VALUES ($1, $2, '2026-06-15', 'go', 60), ($1, $2, '2026-06-15', 'in-house', 40)`, owner, id)
		for viewer, want := range map[uuid.UUID]privacy.Access{owner: privacy.WithPaths, uuid.New(): others, uuid.Nil: others} {
			b.requireAccess(t, viewer, owner, id, want)
		}
	}
	_, err := b.Get(t.Context(), b.user, uuid.New())
	require.ErrorIs(t, err, sessions.ErrNotFound)
	_, err = b.Find(t.Context(), b.user, uuid.New())
	require.ErrorIs(t, err, sessions.ErrNotFound)
}

func (b bundle) requireAccess(t *testing.T, viewer, owner, id uuid.UUID, want privacy.Access) {
	t.Helper()
	ref, errFind := b.Find(t.Context(), viewer, id)
	d, err := b.Get(t.Context(), viewer, id)
	if want == privacy.Hidden {
		require.ErrorIs(t, errFind, sessions.ErrNotFound)
		require.ErrorIs(t, err, sessions.ErrNotFound)
		return
	}
	require.NoError(t, errFind)
	require.NoError(t, err)
	require.Equal(t, sessions.Ref{Owner: owner, ID: id}, ref)
	require.Equal(t, id, d.ID)
	require.Equal(t, want == privacy.WithPaths, len(d.Files) == 1)
	require.Equal(t, want == privacy.WithPaths, d.KeyCounts != nil)
	if want == privacy.WithPaths {
		require.Len(t, d.Langs, 2)
		return
	}
	require.Equal(t, []sessions.LangSeconds{{Lang: "go", Seconds: 60}}, d.Langs)
	require.EqualValues(t, 40, d.OtherSeconds, "without the name")
}

func TestGetShowsTheCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.mustSession(t, b.user, start, time.Hour, 1)
	b.exec(t, `INSERT INTO session_counters (user_id, session_id, views, shares, kudos, comments) VALUES ($1, $2, 1, 2, 3, 4)`, b.user, id)
	d, err := b.Get(t.Context(), uuid.Nil, id)
	require.NoError(t, err)
	require.Equal(t, sessions.Counts{Views: 1, Shares: 2, Kudos: 3, Comments: 4}, d.Counts)
}

// What was read can be a path: it must not be in the error.
func TestGetDoesNotQuoteWhatItCannotRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.mustSession(t, b.user, start, time.Hour, 1)
	b.exec(t, `INSERT INTO session_details (user_id, session_id, files) VALUES ($1, $2, '"secret-path"')`, b.user, id)
	_, err := b.Get(t.Context(), b.user, id)
	require.ErrorContains(t, err, "read files")
	require.NotContains(t, err.Error(), "secret-path")
}

// A list is seen as privacy.See says, by the mode that is read with it.
func TestListShowsWhatTheViewerMaySee(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, mode := range []activity.Mode{activity.ModeFull, activity.ModeSummary, activity.ModeOff} {
		user := b.mustUser(t, mode)
		id := b.mustSession(t, user, start, time.Minute, 1)
		b.exec(t, `UPDATE sessions SET top_lang = 'in-house' WHERE id = $1`, id)
		for _, viewer := range []uuid.UUID{uuid.Nil, uuid.New(), user} {
			page, err := b.List(t.Context(), viewer, user, nil, 20)
			if privacy.See(privacy.ViewerOf(viewer, user), mode, privacy.List) == privacy.Hidden {
				require.ErrorIs(t, err, sessions.ErrNotFound)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, []uuid.UUID{id}, ids(page.Sessions))
			named := viewer == user || mode == activity.ModeFull
			require.Equal(t, named, page.Sessions[0].TopLang == "in-house", "on %s: %s", mode, page.Sessions[0].TopLang)
		}
	}
}
