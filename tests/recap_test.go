package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/recapmail"
	"github.com/commma/commma/internal/testenv/smtpsink"
)

// recapCrowd is a week with users in it, and a mail server.
type recapCrowd struct {
	*stack
	pool   *pgxpool.Pool
	week   recap.Week
	letter recapmail.Letter
	sink   *smtpsink.Sink
	kills  int
}

const (
	recapFrom        = "Commma <recap@example.org>"
	recapBase        = "https://api.example.org"
	recapConnections = 8
)

// newRecapCrowd has so many users who want a mail, of whom one in fifty has an address that the server refuses; and as many
// more of each kind that must get none.
func newRecapCrowd(t *testing.T, users int, decide smtpsink.DecideFunc) *recapCrowd {
	t.Helper()
	s := newStack(t)
	c := &recapCrowd{stack: s, pool: openPool(t, s.database)}
	t.Cleanup(c.pool.Close)
	c.week = recap.WeekOf(calendar.DayOf(clock.System{}.Now().UTC())).Previous().Previous()
	var err error
	c.letter, err = recapmail.ParseLetter(recapFrom, recapBase)
	require.NoError(t, err)
	c.sink, err = smtpsink.New("", decide)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.sink.Close() })
	others := max(5, users/100)
	c.insert("wants", users, `CASE WHEN n % 50 = 0 THEN 'refuse-' ELSE '' END || 'wants-' || n || '@example.org'`, true, "full")
	c.insert("off", others, `'off-' || n || '@example.org'`, true, "off")
	c.insert("silent", others, `'silent-' || n || '@example.org'`, false, "full")
	c.insert("nowhere", others, `NULL`, false, "summary")
	c.exec(`DELETE FROM totals t USING users u WHERE u.id = t.user_id AND u.handle = 'wants-1'`) // was not active
	c.exec(`ANALYZE`)
	return c
}

func (c *recapCrowd) exec(sql string, args ...any) {
	c.t.Helper()
	_, err := c.pool.Exec(c.t.Context(), sql, args...)
	require.NoError(c.t, err)
}

func (c *recapCrowd) insert(kind string, n int, email string, choice bool, mode string) {
	c.t.Helper()
	c.exec(`INSERT INTO users (id, handle, token_hash, email, recap_mail, privacy)
		SELECT gen_random_uuid(), $1::text || '-' || n, '\x00'::bytea, `+email+`, $3::boolean, $4::text FROM generate_series(1, $2::int) n`, kind, n, choice, mode)
	c.exec(`INSERT INTO totals (user_id, period, starts_on, lang, seconds)
		SELECT u.id, p.period, p.starts_on, l.lang, 60 + length(u.handle) * 600 FROM users u
		CROSS JOIN (VALUES ('week', $2::date), ('week', $2::date - 7), ('day', $2::date + 1)) p (period, starts_on)
		CROSS JOIN (VALUES (''), ('go')) l (lang)
		WHERE u.handle LIKE $1::text || '-%'`, kind, c.week.Start())
}

// send is the command that mails the week.
func (c *recapCrowd) send() []string {
	return []string{
		"recap", "send", "--week", c.week.String(), "--from", recapFrom, "--base-url", recapBase,
		"--smtp-host", c.sink.Host, "--smtp-port", fmt.Sprint(c.sink.Port), "--smtp-tls", "none",
		"--connections", fmt.Sprint(recapConnections), "--lease", "8s", "--retry-after", "100ms", "--attempts", "12",
	}
}

// killed runs two jobs at once until the server has so many mails, and kills both.
func (c *recapCrowd) killed(mails int) {
	c.t.Helper()
	jobs := []*process{start(c.t, c.command(c.t.Context(), c.send()...)), start(c.t, c.command(c.t.Context(), c.send()...))}
	require.Eventually(c.t, func() bool {
		for _, j := range jobs {
			select {
			case <-j.done:
				return true
			default:
			}
		}
		return c.sink.Total() >= mails
	}, 20*time.Minute, 2*time.Millisecond)
	for _, j := range jobs {
		_ = j.cmd.Process.Signal(syscall.SIGKILL)
		<-j.done
		c.kills++
	}
}

// tally compares what the server got with what it should have got.
func (c *recapCrowd) tally() (found tally) {
	c.t.Helper()
	count := c.sink.Counts()
	repeats := 0
	for _, u := range rows[struct {
		ID      uuid.UUID
		Refused bool
	}](c.t, c.pool, `SELECT u.id, u.email LIKE 'refuse-%' FROM users u JOIN totals t ON t.user_id = u.id
		WHERE t.period = 'week' AND t.starts_on = $1 AND t.lang = '' AND u.recap_mail AND u.privacy <> 'off'`, c.week.Start()) {
		id := c.letter.MessageID(c.week, u.ID)
		n := count[id]
		delete(count, id)
		if u.Refused {
			found.Leaked += int64(n)
			continue
		}
		found.Expected++
		switch {
		case n == 0:
			found.Lost++
			continue
		case n > 1 && c.sink.Doubtful(id):
			repeats++
		case n > 1:
			found.Duplicates += int64(n - 1)
		}
		found.Found++
	}
	found.Leaked += int64(len(count)) // to who wants none
	if most := c.kills * recapConnections; c.kills > 0 && repeats > most+hungUp(c.sink) {
		found.Errors++
		c.t.Logf("%d mails came twice: more than could be in flight at %d kills", repeats, c.kills)
	}
	return found
}

// moody is a server in a bad mood: by what it is asked, and how often, it refuses for now, closes, or breaks off.
type moody struct {
	mu   sync.Mutex
	seen map[string]uint64
	cuts int
}

var moods sync.Map // of sinks

func hungUp(s *smtpsink.Sink) int {
	if m, ok := moods.Load(s); ok {
		mood := m.(*moody)
		mood.mu.Lock()
		defer mood.mu.Unlock()
		return mood.cuts
	}
	return 0
}

func (m *moody) decide(s smtpsink.Stage, rcpt string) int {
	if strings.HasPrefix(rcpt, "refuse-") {
		return map[smtpsink.Stage]int{smtpsink.Rcpt: 550}[s]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[rcpt+string(s)]++
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, rcpt, s, m.seen[rcpt+string(s)])
	switch n := h.Sum64() >> 8 % 1000; {
	case s == smtpsink.Rcpt && n < 20:
		return 451
	case s == smtpsink.Data && n < 10:
		return 452
	case s == smtpsink.Content && n < 10:
		return 450
	case s == smtpsink.Content && n < 12:
		return 421
	case (s == smtpsink.Content && n < 14) || (s == smtpsink.Accepted && n < 2):
		m.cuts++
		return smtpsink.Cut
	}
	return 0
}

// The real job, two at a time, killed five times: every user is mailed, none twice but who was in flight.
func TestTrialsRecapMailsKilled(t *testing.T) {
	alongside(t)
	users, kills := scaled(50_000, 300), 5
	s := newSuite(t, fmt.Sprintf("recap job for %d users killed and restarted", users), 1)
	mood := &moody{seen: map[string]uint64{}}
	c := newRecapCrowd(t, users, mood.decide)
	moods.Store(c.sink, mood)
	for i := range kills {
		c.killed(users * (i + 1) / (kills + 1))
	}
	r := runJSON[recapmail.Result](c.stack, c.send()...)
	found := c.tally()
	require.Zero(t, r.Left)
	require.Zero(t, r.GivenUp)
	require.EqualValues(t, users/50, r.Refused, "recorded, and left alone")
	require.Equal(t, found.Expected, r.Sent)
	took := r.TookS
	// Whoever runs it once more mails nobody.
	again := runJSON[recapmail.Result](c.stack, c.send()...)
	require.Zero(t, again.Mailed)
	require.Equal(t, r.Sent, again.Sent)
	t.Logf("the last job mailed %d users in %.1f s", r.Mailed, took)
	s.add(found)
}

// unclaimed is the queue without its claim: whoever asks gets what is due.
type unclaimed struct {
	*recapmail.Postgres
	pool *pgxpool.Pool
}

func (q unclaimed) Claim(ctx context.Context, w recap.Week, _ int64, _ time.Duration, n int) ([]recapmail.Claimed, error) {
	r, err := q.pool.Query(ctx, `SELECT user_id FROM recap_mails WHERE week = $1 AND outcome IS NULL ORDER BY user_id LIMIT $2`, w.Start(), n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var claimed []recapmail.Claimed
	for r.Next() {
		var c recapmail.Claimed
		if err := r.Scan(&c.User); err != nil {
			return nil, err
		}
		claimed = append(claimed, c)
	}
	return claimed, r.Err()
}

func (q unclaimed) Report(ctx context.Context, w recap.Week, reports []recapmail.Report) (int64, error) {
	for _, r := range reports {
		if _, err := q.pool.Exec(ctx, `UPDATE recap_mails SET outcome = $3 WHERE week = $1 AND user_id = $2`,
			w.Start(), r.User, r.Outcome); err != nil {
			return 0, err
		}
	}
	return int64(len(reports)), nil
}

func (q unclaimed) Release(context.Context, recap.Week, int64, []uuid.UUID) error { return nil }

// job is a job within the test.
func (c *recapCrowd) job(q recapmail.Queue) *recapmail.Job {
	c.t.Helper()
	j, err := recapmail.NewJob(recapmail.Config{
		Week: c.week, Letter: c.letter, Connections: 4,
		Server: recapmail.Server{Host: c.sink.Host, Port: c.sink.Port, TLS: recapmail.TLSNone},
	}, recapmail.Deps{
		Queue: q, Reader: recap.NewReader(c.pool, clock.System{}, languages.Keys()), Links: recapmail.NewLinks(c.pool),
		Clock: clock.System{}, Log: nopLogger(),
	})
	require.NoError(c.t, err)
	return j
}

// Two jobs at once, with the claim and without.
func recapTrial(t *testing.T, queue func(*pgxpool.Pool) recapmail.Queue) tally {
	t.Helper()
	c := newRecapCrowd(t, scaled(500, 60), func(s smtpsink.Stage, rcpt string) int {
		if s == smtpsink.Rcpt && strings.HasPrefix(rcpt, "refuse-") {
			return 550
		}
		return 0
	})
	var g errgroup.Group
	for range 2 {
		j := c.job(queue(c.pool))
		g.Go(func() error {
			_, err := j.Run(t.Context())
			return err
		})
	}
	require.NoError(t, g.Wait())
	return c.tally()
}

func TestTrialsRecapMailsOfTwoJobs(t *testing.T) {
	alongside(t)
	s := newSuite(t, "two recap jobs at once", 1)
	s.add(recapTrial(t, func(p *pgxpool.Pool) recapmail.Queue { return recapmail.NewPostgres(p) }))
}

func TestTrialsRecapMailsOfTwoJobsWithoutTheClaim(t *testing.T) {
	alongside(t)
	s := newSuiteWithout(t, "the claim", "two recap jobs at once", 1)
	s.add(recapTrial(t, func(p *pgxpool.Pool) recapmail.Queue { return unclaimed{recapmail.NewPostgres(p), p} }))
}

// The stream that jobs read, and the tokens that let them: made, listed and revoked by hand.
func TestRecapsForJobs(t *testing.T) {
	t.Parallel()
	c := newRecapCrowd(t, 250, nil)
	made := runJSON[struct{ Name, Token string }](c.stack, "token", "create", "weekly", "--scope", "recaps", "--json")
	base, _ := c.serve("--no-aggregate")
	url := base + "/v1/recaps?week=" + c.week.String()
	status, body := call(t, "GET", url, made.Token, "")
	require.Equal(t, 200, status, body)
	require.NotContains(t, body, "example.org", "addresses are nobody's business")
	lines := strings.Split(strings.TrimSpace(body), "\n")
	type line struct {
		User  struct{ ID, Handle string }
		Recap struct {
			Total int64 `json:"total_duration_s"`
		}
		Cursor string
		End    bool
		Count  int
	}
	var users []string
	var cut string
	for i, text := range lines {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		if i == len(lines)-1 {
			require.True(t, l.End)
			require.Equal(t, len(users), l.Count)
			break
		}
		require.False(t, strings.HasPrefix(l.User.Handle, "off-"))
		require.EqualValues(t, 60+len(l.User.Handle)*600, l.Recap.Total)
		users = append(users, l.User.ID)
		if i == 99 {
			cut = l.Cursor
		}
	}
	require.Len(t, users, 249+5+5)
	require.IsIncreasing(t, users)
	_, rest := call(t, "GET", url+"&cursor="+cut, made.Token, "")
	require.Equal(t, strings.Count(body, "\n")-100, strings.Count(rest, "\n"), "from where it was cut")

	user := c.createUser("somebody", "UTC")
	for token, want := range map[string]int{"": 401, user.Token: 403, made.Token + "x": 401, made.Token: 400} {
		status, body = call(t, "GET", url+"&cursor=nonsense", token, "")
		require.Equal(t, want, status, body)
	}
	require.Contains(t, c.run("token", "list"), `"weekly"`)
	c.run("token", "revoke", "weekly")
	status, _ = call(t, "GET", url, made.Token, "")
	require.Equal(t, 401, status)
}
