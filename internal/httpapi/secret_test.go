package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/redact"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

// loud is everything that is logged, at every level, by a pool, a server and an aggregator as the program sets them up.
func loud(t *testing.T, redacted bool) (*logBuffer, *slog.Logger) {
	t.Helper()
	o := &slog.HandlerOptions{Level: slog.LevelDebug}
	if redacted {
		o.ReplaceAttr = redact.Attr
	}
	logs := &logBuffer{}
	return logs, slog.New(slog.NewJSONHandler(logs, o))
}

// quoting has Postgres refuse what holds the secret, and quote it in message, detail and hint.
func quoting(t *testing.T, pool *pgxpool.Pool, table string) {
	t.Helper()
	for _, sql := range []string{
		`CREATE OR REPLACE FUNCTION quote() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF to_jsonb(NEW)::text LIKE '%` + secretPath + `%' THEN
				RAISE EXCEPTION 'refused: %', to_jsonb(NEW) USING ERRCODE = '22023', DETAIL = to_jsonb(NEW), HINT = to_jsonb(NEW);
			END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER quote BEFORE INSERT ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION quote()`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
}

// secretRequests have the secret everywhere that a client can put text. Some are answered 500, for Postgres refuses them.
func secretRequests(u account.Created) (list []func(*testing.T, real) reply) {
	const s = secretPath
	event := fmt.Sprintf(`{"id":%q,"ts":%d,"lang":"%[3]s","file":"%[3]s","project":"%[3]s","keystrokes":1,"lines":0,
		"key_freq":{"%[3]s":1},"%[3]s":1}`, uuid.New(), testNow.UnixMilli(), s)
	for _, line := range []string{
		`POST /v1/ingest {"events":[` + event + `]}`,
		`POST /v1/ingest {"events":[{"id":"` + s + `","ts":"` + s + `"}]}`,
		`POST /v1/ingest {"` + s + `":`,
		`PATCH /v1/me {"` + s + `":1}`,
		`PATCH /v1/me {"privacy":"` + s + `"}`,
		`PATCH /v1/me {"timezone":"` + s + `"}`,
		`GET /v1/sessions/` + s,
		`GET /v1/sessions?cursor=` + s,
		`GET /v1/sessions?limit=` + s + `&limit=` + s,
		`GET /v1/leaderboard?lang=` + s + `&period=week`,
		`GET /v1/leaderboard?period=` + s,
		`GET /v1/heatmap?handle=` + s,
		`GET /v1/heatmap?from=` + s + `&to=` + s,
		`GET /v1/users/` + s + `/sessions?cursor=` + s,
		`PATCH /v1/me {"handle":"` + s + ` "}`,
		`GET /v1/leaderboard?cursor=` + s,
		`GET /` + s,
		`DELETE /v1/sessions/` + s,
		s + ` /v1/me`,
	} {
		parts := append(strings.SplitN(line, " ", 3), "")
		for _, auth := range []string{"Bearer " + u.Token, "Bearer " + s, s} {
			list = append(list, func(t *testing.T, r real) reply {
				return r.call(t, parts[0], parts[1], parts[2], withHeader("Authorization", auth), withHeader("User-Agent", s),
					withHeader("X-Request-Id", s), withHeader("X-Forwarded-For", s), withHeader("Referer", s))
			})
		}
	}
	return list
}

// Whatever a client sends and whatever fails over it: no log line, metric, answer or note of a failure holds it.
func TestNothingThatIsSentIsLogged(t *testing.T) {
	t.Parallel()
	for _, redacted := range []bool{true, false} {
		t.Run(fmt.Sprintf("redacted=%t", redacted), func(t *testing.T) {
			t.Parallel()
			logs, log := loud(t, redacted)
			pool, err := store.Open(t.Context(), testenv.PostgresURL(t), store.Options{Log: log})
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			limits := admission.DefaultConfig()
			limits.FailedAuthPerHour = 0
			r := setupLogging(t, pool, testenv.RedisURL(t), limits, Config{}, log)
			ada := r.mustUser(t, "ada")
			quoting(t, pool, "events")
			logs.buf.Reset() // our own DDL has the secret

			failed := 0
			for _, request := range secretRequests(ada) {
				got := request(t, r)
				require.NotContains(t, got.body, secretPath)
				require.NotContains(t, fmt.Sprint(got.header), secretPath)
				if got.status == http.StatusInternalServerError {
					failed++
				}
			}
			require.Equal(t, 1, failed, "the batch that Postgres refused")
			finalizeSecret(t, pool, log, ada.ID)
			require.Contains(t, logs.String(), "22023")
			log.Error("as anybody logs it", "err", fmt.Errorf("store: %w", pgQuote(t, pool)))
			require.NotContains(t, r.logs.String(), secretPath)
			require.Equal(t, !redacted, strings.Contains(logs.String(), secretPath), logs)
			require.NotContains(t, mustGather(t, r.registry), secretPath)
		})
	}
}

// pgQuote is an error of Postgres that quotes the secret.
func pgQuote(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	err := pool.QueryRow(t.Context(), `SELECT $1::text::uuid`, secretPath).Scan(new(uuid.UUID))
	require.ErrorContains(t, err, secretPath, "the search must be known to find it")
	return err
}

// finalizeSecret has an aggregator meet an event with the secret that Postgres refuses as a session.
func finalizeSecret(t *testing.T, pool *pgxpool.Pool, log *slog.Logger, user uuid.UUID) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `DROP TRIGGER quote ON events`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, file) VALUES ($1, $2, 1000000, 'go', 1, 1, $3)`,
		user, uuid.New(), secretPath)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, 1000, 1000)`, user)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `CREATE TRIGGER quote BEFORE INSERT ON session_details FOR EACH ROW EXECUTE FUNCTION quote()`)
	require.NoError(t, err)
	stats, err := aggregate.New(pool, aggregate.NewFinalizer(outbox.Enqueue), clock.System{}, log, 1).Cycle(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, stats.Failed)
	var reason string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT reason FROM finalize_failures WHERE user_id = $1`, user).Scan(&reason))
	require.Equal(t, "22023", reason)
}

func mustGather(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	var all strings.Builder
	for _, f := range families {
		all.WriteString(f.String())
	}
	require.NotEmpty(t, all.String())
	return all.String()
}
