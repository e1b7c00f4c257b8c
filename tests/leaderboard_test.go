package tests

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestLeaderboardCommands plants a wrong total behind everybody's back. What verify prints and its exit code must say so,
// --heal must repair it, and rebuild must leave boards that verify finds right.
func TestLeaderboardCommands(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.run("migrate", "up")
	var user struct{ ID, Token string }
	require.NoError(t, json.Unmarshal([]byte(s.run("user", "create", "ada", "--json")), &user))
	conn, err := pgx.Connect(t.Context(), s.database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	exec := func(sql string, args ...any) {
		_, err := conn.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	at := time.Now().Add(-2 * time.Hour).Unix() //nolint:forbidigo // the processes go by the machine's clock
	exec(`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines) VALUES ($1, gen_random_uuid(), 1000 * $2::bigint, 'go', 1, 1)`, user.ID, at)
	exec(`INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, $2, $2)`, user.ID, at)
	s.run("worker", "--once")

	type counts struct{ Users, Seconds, Healed int }
	verify := func(wantCode int, args ...string) (r struct {
		Users, Boards, Drift, Healed int
		Totals                       counts
	}) {
		t.Helper()
		var out, logs bytes.Buffer
		cmd := s.command(t.Context(), append([]string{"leaderboard", "verify"}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, &logs
		_ = cmd.Run()
		require.Equal(t, wantCode, cmd.ProcessState.ExitCode(), logs.String())
		require.NoError(t, json.Unmarshal(out.Bytes(), &r), out.String())
		return r
	}
	clean := verify(0)
	require.Equal(t, 1, clean.Users)
	require.Positive(t, clean.Boards)

	exec(`UPDATE totals SET seconds = seconds + 1 WHERE period = 'alltime' AND lang = ''`)
	require.Equal(t, counts{Users: 1, Seconds: 1}, verify(1).Totals)
	require.Equal(t, counts{Users: 1, Seconds: 1, Healed: 1}, verify(0, "--heal").Totals)
	require.Zero(t, verify(0).Drift)

	var rebuilt struct{ Boards, Built, Rows int }
	require.NoError(t, json.Unmarshal([]byte(s.run("leaderboard", "rebuild", "--period", "alltime", "--lang", "Go")), &rebuilt))
	require.Equal(t, struct{ Boards, Built, Rows int }{1, 1, 1}, rebuilt)
	require.NoError(t, json.Unmarshal([]byte(s.run("leaderboard", "rebuild")), &rebuilt))
	require.Equal(t, clean.Boards, rebuilt.Built)
	require.Zero(t, verify(0).Drift)
}
