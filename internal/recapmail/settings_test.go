package recapmail

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/testenv/smtpsink"
)

// outcomes counts the mails by what became of them and their attempts.
func (b *bundle) outcomes() map[string]int {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT coalesce(outcome, 'pending') || '/' || attempts, count(*) FROM recap_mails GROUP BY 1`)
	require.NoError(b.t, err)
	defer rows.Close()
	found := map[string]int{}
	for rows.Next() {
		var what string
		var n int
		require.NoError(b.t, rows.Scan(&what, &n))
		found[what] = n
	}
	require.NoError(b.t, rows.Err())
	return found
}

// A refused sender is a matter of settings: the job stops and says the code, and no mail is charged for it, not even one that
// it would have been the last attempt of.
func TestARefusedSender(t *testing.T) {
	t.Parallel()
	for _, code := range []int{530, 550, 553} {
		b := setup(t, func(s smtpsink.Stage, _ string) int { return map[smtpsink.Stage]int{smtpsink.Mail: code}[s] })
		for i := range 40 {
			b.user(fmt.Sprint("user-", i))
		}
		cfg := b.config()
		cfg.Retries.Most = 1
		r, err := b.job(cfg, NewPostgres(b.pool)).Run(t.Context())
		require.ErrorIs(t, err, ErrSenderRefused)
		require.ErrorContains(t, err, fmt.Sprint(code))
		require.NotContains(t, err.Error(), "example.org")
		require.EqualValues(t, 40, r.Left)
		require.Equal(t, map[string]int{"pending/0": 40}, b.outcomes())
		var reserved int
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM recap_mails WHERE claim IS NOT NULL`).Scan(&reserved))
		require.Zero(t, reserved, "all are given back")
	}
}

// A sender that is refused for now is waited for, and no mail is charged for it.
func TestASenderRefusedForNow(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	b := setup(t, func(s smtpsink.Stage, _ string) int {
		if s == smtpsink.Mail && n.Add(1) <= 3 {
			return 451
		}
		return 0
	})
	for i := range 3 {
		b.user(fmt.Sprint("user-", i))
	}
	cfg := b.config()
	cfg.Connections, cfg.Retries.Most = 1, 1
	began := b.job(cfg, NewPostgres(b.pool)).Clock.Now()
	require.EqualValues(t, 3, b.run(cfg).Sent)
	require.Equal(t, map[string]int{"sent/1": 3}, b.outcomes())
	require.Greater(t, b.job(cfg, NewPostgres(b.pool)).Clock.Now().Sub(began), 2*firstPause, "it backs off")
	require.Contains(t, b.logs.String(), "451")
}

// A server that refuses the first mails one and all is not given the rest of the week to refuse. The way back is to send those
// again.
func TestAServerThatRefusesEverything(t *testing.T) {
	t.Parallel()
	for _, stage := range []smtpsink.Stage{smtpsink.Rcpt, smtpsink.Data, smtpsink.Content} {
		var mended atomic.Bool
		b := setup(t, func(s smtpsink.Stage, _ string) int {
			if s == stage && !mended.Load() {
				return 554
			}
			return 0
		})
		for i := range 60 {
			b.user(fmt.Sprint("user-", i))
		}
		cfg := b.config()
		cfg.Connections = 8
		r, err := b.job(cfg, NewPostgres(b.pool)).Run(t.Context())
		require.ErrorIs(t, err, ErrAllRefused)
		require.ErrorContains(t, err, "554")
		require.EqualValues(t, firstMails, r.Refused)
		require.Equal(t, map[string]int{"refused/1": firstMails, "pending/0": 60 - firstMails}, b.outcomes(), "no more than those are booked")
		mended.Store(true)
		cfg.Again = []Outcome{Refused}
		require.EqualValues(t, 60, b.run(cfg).Mailed)
		require.Equal(t, map[string]int{"sent/1": 60}, b.outcomes())
	}
}

// Once the server took a mail, many that it refuses are no matter of settings; nor are a few.
func TestManyBadAddresses(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s smtpsink.Stage, rcpt string) int {
		if s == smtpsink.Rcpt && strings.HasPrefix(rcpt, "gone-") {
			return 550
		}
		return 0
	})
	for i := range firstMails - 1 {
		b.user(fmt.Sprint("gone-", i))
	}
	require.EqualValues(t, firstMails-1, b.run(b.config()).Refused, "a few")
	b.user("ada")
	cfg := b.config()
	require.EqualValues(t, 1, b.run(cfg).Sent)
	for i := range 3 * firstMails {
		b.user(fmt.Sprint("gone-too-", i))
	}
	for range 3 {
		b.user("user-" + uuid.NewString()[:8])
	}
	// The first one that is begun is taken.
	require.NoError(t, NewPostgres(b.pool).Enqueue(t.Context(), b.week, []uuid.UUID{b.user("grace")}))
	b.exec(`UPDATE recap_mails SET next_at = now() - interval '1 hour' WHERE outcome IS NULL`)
	cfg.Connections = 1
	r := b.run(cfg)
	require.EqualValues(t, 4, r.Mailed)
	require.EqualValues(t, 4*firstMails-1, r.Refused)
}

// What was refused or given up is sent again where that is asked for, with all its attempts; what was sent never is.
func TestAgain(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	b := setup(t, func(s smtpsink.Stage, rcpt string) int {
		user, _, _ := strings.Cut(rcpt, "@")
		switch {
		case mended.Load() || s != smtpsink.Rcpt:
			return 0
		case user == "gone":
			return 550
		case user == "full":
			return 452
		}
		return 0
	})
	ada, gone, full := b.user("ada"), b.user("gone"), b.user("full")
	cfg := b.config()
	cfg.Retries.Most = 2
	b.run(cfg)
	states := map[string]int{"sent/1": 1, "refused/1": 1, "given_up/2": 1}
	require.Equal(t, states, b.outcomes())
	mended.Store(true)
	b.run(cfg)
	require.Equal(t, states, b.outcomes(), "nobody asked for it")

	other := b.week.Previous()
	b.exec(`INSERT INTO recap_mails (week, user_id, outcome, attempts) VALUES ($1, $2, 'refused', 1)`, other.Start(), ada)
	cfg.Again = []Outcome{GivenUp}
	require.EqualValues(t, 1, b.run(cfg).Mailed)
	require.Equal(t, map[string]int{"sent/1": 2, "refused/1": 2}, b.outcomes())
	cfg.Again = []Outcome{Refused, GivenUp}
	require.EqualValues(t, 1, b.run(cfg).Mailed)
	require.Equal(t, map[string]int{"sent/1": 3, "refused/1": 1}, b.outcomes(), "of this week alone")
	for _, id := range []uuid.UUID{ada, gone, full} {
		require.Equal(t, 1, b.mails(id))
	}

	for _, bad := range []Outcome{Sent, Pending, "x"} {
		cfg.Again = []Outcome{bad}
		_, err := NewJob(cfg, Deps{})
		require.ErrorContains(t, err, "again", bad)
	}
	n, err := NewPostgres(b.pool).Again(t.Context(), b.week, []Outcome{Sent})
	require.NoError(t, err)
	require.Zero(t, n, "not even when asked for")
}

// While it is not known whether the server takes any mail, no more are in hand than may be lost.
func TestStart(t *testing.T) {
	t.Parallel()
	var s start
	for range firstMails {
		ok, err := s.begin()
		require.True(t, ok)
		require.NoError(t, err)
	}
	ok, err := s.begin()
	require.False(t, ok, "all of them are in hand")
	require.NoError(t, err)
	for range firstMails - 1 {
		s.end(verdict{outcome: Refused, reply: "554"})
	}
	s.end(verdict{broken: true})
	ok, err = s.begin()
	require.True(t, ok, "one broke off, and has another try")
	require.NoError(t, err)
	s.end(verdict{outcome: Refused, reply: "554"})
	_, err = s.begin()
	require.ErrorIs(t, err, ErrAllRefused)

	s = start{}
	s.end(verdict{outcome: Sent})
	for range 3 * firstMails {
		ok, err = s.begin()
		require.True(t, ok)
		require.NoError(t, err)
		s.end(verdict{outcome: Refused})
	}
}
