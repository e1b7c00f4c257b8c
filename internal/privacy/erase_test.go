package privacy

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

const secret = "s3cr3t"

// mustStoreSecrets gives a user a row with the secret in every place that can hold one.
func mustStoreSecrets(t *testing.T, db *pgxpool.Pool, userID uuid.UUID) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, project) VALUES ($1, gen_random_uuid(), 1, 'go', 1, 1, $2)`,
		`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, file) VALUES ($1, gen_random_uuid(), 2, 'go', 1, 1, $2)`,
		`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, key_freq) VALUES ($1, gen_random_uuid(), 3, 'go', 1, 1, $2)`,
		`INSERT INTO session_details (user_id, session_id, files) VALUES ($1, gen_random_uuid(), jsonb_build_array($2::text))`,
		`INSERT INTO session_details (user_id, session_id, key_counts) VALUES ($1, gen_random_uuid(), jsonb_build_array($2::text))`,
		`INSERT INTO archive_details (user_id, session_id, chunk, details) VALUES ($1, gen_random_uuid(), 0, $2::text::bytea)`,
	} {
		_, err := db.Exec(t.Context(), sql, userID, secret)
		require.NoError(t, err)
	}
	_, err := db.Exec(t.Context(), `INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, 0, 0)`, userID)
	require.NoError(t, err)
}

// secrets counts a user's rows that hold the secret.
func secrets(t *testing.T, db *pgxpool.Pool, userID uuid.UUID) int {
	t.Helper()
	return count(t, db, `SELECT
		(SELECT count(*) FROM events WHERE user_id = $1 AND $2 IN (project, file, key_freq))
		+ (SELECT count(*) FROM session_details WHERE user_id = $1 AND concat(files, key_counts) LIKE '%'||$2||'%')
		+ (SELECT count(*) FROM archive_details WHERE user_id = $1 AND details = $2::text::bytea)`, userID, secret)
}

func count(t *testing.T, db *pgxpool.Pool, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func TestEraseTx(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	leaver, other := uuid.New(), uuid.New()
	mustStoreSecrets(t, db, leaver)
	mustStoreSecrets(t, db, other)
	require.Equal(t, 6, secrets(t, db, leaver), "the search must be known to find them")

	require.NoError(t, store.WithTx(t.Context(), db, func(ctx context.Context, tx pgx.Tx) error {
		return EraseTx(ctx, tx, leaver)
	}))
	require.Zero(t, secrets(t, db, leaver))
	require.Equal(t, 3, count(t, db, `SELECT count(*) FROM events WHERE user_id = $1 AND lang = 'go'`, leaver))
	require.Equal(t, 6, secrets(t, db, other))
}

func TestDropHotTx(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	leaver, other := uuid.New(), uuid.New()
	mustStoreSecrets(t, db, leaver)
	mustStoreSecrets(t, db, other)
	require.NoError(t, store.WithTx(t.Context(), db, func(ctx context.Context, tx pgx.Tx) error {
		return DropHotTx(ctx, tx, leaver)
	}))
	hot := `SELECT (SELECT count(*) FROM events WHERE user_id = $1) + (SELECT count(*) FROM hot_runs WHERE user_id = $1)`
	require.Zero(t, count(t, db, hot, leaver))
	require.Equal(t, 4, count(t, db, hot, other))
}
