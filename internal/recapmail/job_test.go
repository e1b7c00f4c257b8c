package recapmail

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/testenv/smtpsink"
)

// bundle is a week that can be sent, by Postgres's clock, and a mail server.
type bundle struct {
	t      *testing.T
	pool   *pgxpool.Pool
	week   recap.Week
	letter Letter
	sink   *smtpsink.Sink
	links  *Links
	logs   *logs
}

type logs struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func setup(t *testing.T, decide smtpsink.DecideFunc) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: testenv.Postgres(t), letter: mustLetter(t), logs: &logs{}}
	b.week = recap.WeekOf(calendar.DayOf(clock.System{}.Now().UTC())).Previous().Previous()
	b.links = NewLinks(b.pool)
	var err error
	b.sink, err = smtpsink.New("", decide)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.sink.Close() })
	return b
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// user makes one who was active and wants mail.
func (b *bundle) user(handle string) uuid.UUID {
	b.t.Helper()
	id := uuid.New()
	b.exec(`INSERT INTO users (id, handle, token_hash, email, recap_mail) VALUES ($1, $2, '\x00', $2 || '@example.org', true)`, id, handle)
	b.exec(`INSERT INTO totals (user_id, period, starts_on, lang, seconds) VALUES ($1, 'week', $2, '', 600)`, id, b.week.Start())
	return id
}

func (b *bundle) config() Config {
	return Config{
		Week: b.week, Letter: b.letter, Connections: 2, Lease: 6 * time.Second, Retries: Retries{First: 10 * time.Millisecond},
		Server: Server{Host: b.sink.Host, Port: b.sink.Port, TLS: TLSNone},
	}
}

func (b *bundle) job(cfg Config, q Queue) *Job {
	b.t.Helper()
	j, err := NewJob(cfg, Deps{
		Queue: q, Reader: recap.NewReader(b.pool, clock.System{}, nil), Links: b.links, Clock: clock.System{},
		Log: slog.New(slog.NewTextHandler(b.logs, nil)),
	})
	require.NoError(b.t, err)
	return j
}

func (b *bundle) run(cfg Config) Result {
	b.t.Helper()
	r, err := b.job(cfg, NewPostgres(b.pool)).Run(b.t.Context())
	require.NoError(b.t, err)
	return r
}

func (b *bundle) mails(id uuid.UUID) int { return b.sink.Counts()[b.letter.MessageID(b.week, id)] }

func (b *bundle) row(id uuid.UUID) (outcome, reply string, attempts int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT coalesce(outcome, ''), coalesce(reply, ''), attempts FROM recap_mails
		WHERE week = $1 AND user_id = $2`, b.week.Start(), id).Scan(&outcome, &reply, &attempts))
	return outcome, reply, attempts
}

// What the server refuses for good is recorded, what it refuses for now is tried again and given up in the end, and nothing
// of it is logged.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	b := setup(t, func(s smtpsink.Stage, rcpt string) int {
		user, _, _ := strings.Cut(rcpt, "@")
		switch {
		case user == "gone" && s == smtpsink.Rcpt:
			return 550
		case user == "spam" && s == smtpsink.Content:
			return 554
		case user == "nodata" && s == smtpsink.Data:
			return 554
		case user == "full" && s == smtpsink.Rcpt:
			return 452
		case user == "grey" && s == smtpsink.Content && tries.Add(1) < 3:
			return 451
		}
		return 0
	})
	ids := make(map[string]uuid.UUID)
	for _, handle := range []string{"ada", "gone", "spam", "nodata", "full", "grey", "grace"} {
		ids[handle] = b.user(handle)
	}
	cfg := b.config()
	cfg.Retries.Most = 4
	r := b.run(cfg)
	require.Equal(t, Result{Week: b.week.String(), Sent: 3, Refused: 3, GivenUp: 1, Mailed: 3, TookS: r.TookS}, r)
	for handle, want := range map[string]string{
		"ada": "sent//1", "grace": "sent//1", "grey": "sent//3", "gone": "refused/550/1", "spam": "refused/554/1",
		"nodata": "refused/554/1", "full": "given_up/452/4",
	} {
		outcome, reply, attempts := b.row(ids[handle])
		require.Equal(t, want, fmt.Sprintf("%s/%s/%d", outcome, reply, attempts), handle)
		require.Equal(t, strings.HasPrefix(want, "sent"), b.mails(ids[handle]) == 1, handle)
	}
	require.NotContains(t, b.logs.String(), "example.org")
	r = b.run(cfg)
	require.Zero(t, r.Mailed)
	require.EqualValues(t, 3, r.Sent)
	require.Equal(t, 3, b.sink.Total())
}

// A server that hangs up, or says that it is about to, costs no mail an attempt; one that breaks off while it takes a mail may
// get it again.
func TestAServerThatHangsUp(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	b := setup(t, func(s smtpsink.Stage, rcpt string) int {
		if rcpt == "" && s == smtpsink.Mail && n.Add(1)%3 == 0 {
			return 421
		}
		return 0
	})
	var ids []uuid.UUID
	for i := range 5 {
		ids = append(ids, b.user(fmt.Sprint("user-", i)))
	}
	require.EqualValues(t, 5, b.run(b.config()).Mailed)
	for _, id := range ids {
		require.Equal(t, 1, b.mails(id))
		_, _, attempts := b.row(id)
		require.Equal(t, 1, attempts)
	}
}

// While the server is away the job waits, and it goes on when it is back.
func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	id := b.user("ada")
	require.NoError(t, b.sink.Close())
	done := make(chan Result, 1)
	go func() { done <- b.run(b.config()) }()
	require.Eventually(t, func() bool { return strings.Contains(b.logs.String(), "SMTP server does not answer") }, time.Minute, 5*time.Millisecond)
	back, err := smtpsink.New(fmt.Sprintf("%s:%d", b.sink.Host, b.sink.Port), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = back.Close() })
	require.EqualValues(t, 1, (<-done).Sent)
	require.Equal(t, 1, back.Counts()[b.letter.MessageID(b.week, id)])
	_, _, attempts := b.row(id)
	require.Equal(t, 1, attempts)
}

// A server that does not want us at all is not waited for.
func TestAServerThatRefusesUs(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s smtpsink.Stage, _ string) int { return map[smtpsink.Stage]int{smtpsink.Connect: 554}[s] })
	b.user("ada")
	_, err := b.job(b.config(), NewPostgres(b.pool)).Run(t.Context())
	require.ErrorContains(t, err, "connect to SMTP server")
}

// interrupted runs something after each claim, when mails are in hand.
type interrupted struct {
	*Postgres
	after func()
}

func (q interrupted) Claim(ctx context.Context, w recap.Week, claim int64, lease time.Duration, n int) ([]Claimed, error) {
	c, err := q.Postgres.Claim(ctx, w, claim, lease, n)
	q.after()
	return c, err
}

// Who leaves, is deleted, or takes the address or the choice back while mails are in hand gets none, and no row stays.
func TestWhoIsNoLongerWanted(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	stays, off, gone, silent, nowhere := b.user("stays"), b.user("off"), b.user("gone"), b.user("silent"), b.user("nowhere")
	var once sync.Once
	q := interrupted{NewPostgres(b.pool), func() {
		once.Do(func() {
			b.exec(`UPDATE users SET privacy = 'off' WHERE id = $1`, off)
			b.exec(`DELETE FROM users WHERE id = $1`, gone)
			b.exec(`UPDATE users SET email = NULL, recap_mail = false WHERE id = $1`, nowhere)
			token, err := b.links.token(t.Context(), silent)
			require.NoError(t, err)
			require.NoError(t, b.links.Unsubscribe(t.Context(), token))
		})
	}}
	cfg := b.config()
	cfg.Connections = 1
	r, err := b.job(cfg, q).Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Mailed)
	require.Equal(t, 1, b.mails(stays))
	require.Equal(t, 1, b.sink.Total())
	var left int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM recap_mails`).Scan(&left))
	require.Equal(t, 1, left)
	// Who chooses it again gets it with the next run.
	b.exec(`UPDATE users SET recap_mail = true WHERE id = $1`, silent)
	require.EqualValues(t, 1, b.run(cfg).Mailed)
	require.Equal(t, 1, b.mails(silent))
}

// A job that is told to stop gives back what it has not begun; the next one need not wait for the lease.
func TestStop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	var taken atomic.Int64
	b := setup(t, func(s smtpsink.Stage, _ string) int {
		if s == smtpsink.Accepted && taken.Add(1) == 3 {
			stop()
		}
		return 0
	})
	for i := range 40 {
		b.user(fmt.Sprint("user-", i))
	}
	cfg := b.config()
	cfg.Lease = time.Hour
	r, err := b.job(cfg, NewPostgres(b.pool)).Run(ctx)
	require.NoError(t, err)
	require.Equal(t, r.Mailed, r.Sent)
	require.EqualValues(t, b.sink.Total(), r.Sent, "what was in hand is booked")
	require.EqualValues(t, 40-r.Sent, r.Left)
	require.Positive(t, r.Left)
	require.EqualValues(t, 40, b.run(cfg).Sent)
	require.Equal(t, 40, b.sink.Total())
}

// At a rate so low that a turn comes later than a batch may wait for it, the job still gets on, with one connection and with
// several: a turn that came too late for its batch is the next one's.
func TestARateBelowTheLeases(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{1, 8} {
		b := setup(t, nil)
		var ids []uuid.UUID
		for i := range 5 {
			ids = append(ids, b.user(fmt.Sprint("user-", i)))
		}
		cfg := b.config()
		cfg.Connections, cfg.Lease, cfg.Rate = connections, time.Second, 1.5
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		r, err := b.job(cfg, NewPostgres(b.pool)).Run(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 5, r.Sent, "%d connections", connections)
		for _, id := range ids {
			require.Equal(t, 1, b.mails(id))
		}
	}
}

// What a process that died had in hand is due when its lease ends, and only then; what it would still say does not count, but
// for a mail that was taken.
func TestLeases(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	q, id := NewPostgres(b.pool), b.user("ada")
	require.NoError(t, q.Enqueue(t.Context(), b.week, []uuid.UUID{id}))
	require.NoError(t, q.Enqueue(t.Context(), b.week, []uuid.UUID{id}))
	first, err := q.Claim(t.Context(), b.week, 1, time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, []Claimed{{User: id}}, first)
	second, err := q.Claim(t.Context(), b.week, 2, time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, second)
	pending, in, err := q.Next(t.Context(), b.week)
	require.NoError(t, err)
	require.EqualValues(t, 1, pending)
	require.Greater(t, in, 50*time.Minute)
	b.exec(`UPDATE recap_mails SET next_at = now()`)
	second, err = q.Claim(t.Context(), b.week, 2, time.Hour, 10)
	require.NoError(t, err)
	require.Len(t, second, 1)
	for _, stale := range []Outcome{Refused, GivenUp, Pending} {
		booked, err := q.Report(t.Context(), b.week, []Report{{User: id, Claim: 1, Outcome: stale}})
		require.NoError(t, err)
		require.Zero(t, booked)
	}
	require.NoError(t, q.Release(t.Context(), b.week, 1, []uuid.UUID{id}))
	require.NoError(t, q.Drop(t.Context(), b.week, 1, []uuid.UUID{id}))
	booked, err := q.Report(t.Context(), b.week, []Report{{User: id, Claim: 2, Outcome: Sent}})
	require.NoError(t, err)
	require.EqualValues(t, 1, booked)
	require.NoError(t, q.Enqueue(t.Context(), b.week, []uuid.UUID{id}))
	require.Zero(t, b.run(b.config()).Mailed)
}

// A mail that was taken was taken, whoever holds its claim by then: it must not be sent once more. What the other says of it
// later changes nothing.
func TestTakenAfterTheLease(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	q, id := NewPostgres(b.pool), b.user("ada")
	require.NoError(t, q.Enqueue(t.Context(), b.week, []uuid.UUID{id}))
	for _, claim := range []int64{1, 2} {
		claimed, err := q.Claim(t.Context(), b.week, claim, time.Hour, 10)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		b.exec(`UPDATE recap_mails SET next_at = now()`)
	}
	booked, err := q.Report(t.Context(), b.week, []Report{{User: id, Claim: 1, Outcome: Sent}})
	require.NoError(t, err)
	require.EqualValues(t, 1, booked)
	for _, late := range []Outcome{Sent, Refused, GivenUp, Pending} {
		booked, err := q.Report(t.Context(), b.week, []Report{{User: id, Claim: 2, Outcome: late, Reply: "550"}})
		require.NoError(t, err)
		require.Zero(t, booked)
	}
	outcome, reply, attempts := b.row(id)
	require.Equal(t, "sent//1", fmt.Sprintf("%s/%s/%d", outcome, reply, attempts))
	require.Zero(t, b.run(b.config()).Mailed)
}

// A week that is not over, or long over, is not sent, and nothing is noted of it.
func TestWeeksThatCannotBeSent(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.user("ada")
	for _, w := range []struct {
		weeks int
		err   error
	}{{0, ErrTooEarly}, {1, ErrTooEarly}, {-20, ErrTooLate}} {
		cfg := b.config()
		cfg.Week = recap.WeekOf(calendar.DayOf(clock.System{}.Now().UTC()) + calendar.Day(7*w.weeks))
		_, err := b.job(cfg, NewPostgres(b.pool)).Run(t.Context())
		require.ErrorIs(t, err, w.err)
	}
	require.Zero(t, b.sink.Total())
	b.exec(`INSERT INTO recap_mails (week, user_id) VALUES ($1, gen_random_uuid())`, b.week.Start()-7*30)
	b.run(b.config())
	var weeks int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(DISTINCT week) FROM recap_mails`).Scan(&weeks))
	require.Equal(t, 1, weeks, "old weeks are pruned")
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	id := b.user("ada")
	b.exec(`UPDATE users SET recap_mail = false WHERE id = $1`, b.user("silent"))
	dir := filepath.Join(t.TempDir(), "mails")
	n, err := b.job(b.config(), NewPostgres(b.pool)).DryRun(t.Context(), dir)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	raw, err := os.ReadFile(filepath.Join(dir, id.String()+".eml"))
	require.NoError(t, err)
	require.Equal(t, b.letter.MessageID(b.week, id), smtpsink.MessageID(raw))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Zero(t, b.sink.Total())
	var rows int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM recap_mails`).Scan(&rows))
	require.Zero(t, rows)
}

// A link stops the mails of its user, in every process, and of nobody else; a changed one stops nothing.
func TestLinks(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ada, grace := b.user("ada"), b.user("grace")
	url, err := b.links.URL(t.Context(), "https://api.example.org", ada)
	require.NoError(t, err)
	token, ok := strings.CutPrefix(url, "https://api.example.org"+UnsubscribePath+"?token=")
	require.True(t, ok)
	other := NewLinks(b.pool)
	require.NoError(t, other.Check(t.Context(), token))
	forged := append([]byte{}, token...)
	forged[3] ^= 1
	for _, bad := range []string{"", "x", token[:len(token)-1], token + "A", string(forged), "\n" + token} {
		require.ErrorIs(t, other.Check(t.Context(), bad), ErrBadLink)
		require.ErrorIs(t, other.Unsubscribe(t.Context(), bad), ErrBadLink)
	}
	for range 2 {
		require.NoError(t, other.Unsubscribe(t.Context(), token))
	}
	for id, want := range map[uuid.UUID]bool{ada: false, grace: true} {
		var choice bool
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT recap_mail FROM users WHERE id = $1`, id).Scan(&choice))
		require.Equal(t, want, choice)
	}
	b.exec(`DELETE FROM users WHERE id = $1`, ada)
	require.NoError(t, other.Unsubscribe(t.Context(), token))
}
