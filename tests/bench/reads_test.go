package bench

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/profile"
	"github.com/commma/commma/internal/testenv"
)

// BenchmarkReads measures the profile and the heatmap of a year of a user with a long history beside those of one with ten
// sessions, among as many others as there would be: what is read must not follow what was done before.
func BenchmarkReads(b *testing.B) {
	db := testenv.StockPostgres(b, "synchronous_commit", "off")
	few, year, many := historyOf(b, db, 10), historyOf(b, db, 4*365), historyOf(b, db, scaled(10_000, 500))
	_, err := db.Exec(b.Context(), `ANALYZE`)
	require.NoError(b, err)
	r := profile.NewReader(db, clock.NewManual(noon), languages.Keys())
	const reads = 100
	b.Run("profile/against=10 sessions", func(b *testing.B) {
		read := func(h history) func() time.Duration {
			return each(reads, func() {
				u, err := r.User(b.Context(), uuid.Nil, h.handle)
				require.NoError(b, err)
				s, err := r.Stats(b.Context(), uuid.Nil, u.ID)
				require.NoError(b, err)
				require.EqualValues(b, h.sessions, s.Sessions)
			})
		}
		duel(b, read(few), read(many))
	})
	today := calendar.DayOf(noon)
	days := profile.Days{From: today - 364, To: today}
	heatmap := func(h history) func() time.Duration {
		return each(reads, func() {
			m, err := r.Heatmap(b.Context(), uuid.Nil, h.handle, &days)
			require.NoError(b, err)
			require.Len(b, m.Seconds, 365)
		})
	}
	// A day with nothing in it is a row less to read.
	b.Run("heatmap/against=10 sessions", func(b *testing.B) { duel(b, heatmap(few), heatmap(many)) })
	b.Run("heatmap/against=this year only", func(b *testing.B) { duel(b, heatmap(year), heatmap(many)) })
}

// history is a user with so many sessions, four a day in three languages, the last one of which was today.
type history struct {
	handle   string
	sessions int
}

func historyOf(b *testing.B, db *pgxpool.Pool, sessions int) history {
	b.Helper()
	id := uuid.New()
	h := history{"h" + id.String()[:8], sessions}
	for _, sql := range []string{
		`INSERT INTO users (id, handle, token_hash, session_count) VALUES ($1, $2, '', $3)`,
		`INSERT INTO user_zones SELECT $1::uuid, 0, 'UTC' WHERE $2::text <> '' AND $3::int > 0`,
		`INSERT INTO user_counters (user_id) SELECT $1::uuid WHERE $2::text <> '' AND $3::int > 0`,
		`INSERT INTO sessions SELECT gen_random_uuid(), $1::uuid, t, t + interval '1 hour', 'UTC', 60, 100, 1, 'go', 9, t
			FROM (SELECT '2026-06-17'::timestamptz - n * interval '6 hours' AS t FROM generate_series(0, $3::int - 1) n) s WHERE $2::text <> ''`,
		`INSERT INTO totals SELECT $1::uuid, p.period, p.starts_on, l.lang, sum(l.share * 36)::bigint
			FROM (SELECT date '2026-06-17' - n / 4 AS day FROM generate_series(0, $3::int - 1) n) s
			CROSS JOIN (VALUES ('', 100), ('go', 60), ('typescript', 30), ('c', 10)) l (lang, share)
			CROSS JOIN LATERAL (VALUES ('day', s.day), ('week', date_trunc('week', s.day::timestamp)::date),
				('month', date_trunc('month', s.day::timestamp)::date), ('alltime', date '1970-01-01')) p (period, starts_on)
			WHERE $2::text <> '' GROUP BY 2, 3, 4`,
	} {
		_, err := db.Exec(b.Context(), sql, id, h.handle, sessions)
		require.NoError(b, err)
	}
	return h
}
