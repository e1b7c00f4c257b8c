package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/clock"
)

// Any number of aggregators work on the same users at the same time, while the API takes what those users still upload:
// each session stands once.
func TestTrialsConcurrentAggregators(t *testing.T) {
	alongside(t)
	for _, aggregators := range []int{2, 4, 8} {
		t.Run(strconv.Itoa(aggregators), func(t *testing.T) {
			alongside(t)
			trials := scaled(50, 1)
			s := newSuite(t, fmt.Sprintf("%d aggregators and ingest at once", aggregators), trials)
			met := 0
			eachTrial(t, s, trials, func(st *stack) tally {
				found, skipped := st.crowdTrial(aggregators)
				met += skipped
				return found
			})
			require.Positive(t, met, "no two aggregators ever wanted the same user: nothing was shown")
		})
	}
}

// The trials see what they are there to see: where whoever asks for a user's writer lock gets it, aggregators use the
// same events. The database itself says so, by a function that stands before its own; ingest's lock is another function.
func TestTrialsConcurrentAggregatorsWithoutTheLock(t *testing.T) {
	alongside(t)
	const aggregators = 4
	trials := scaled(5, 1)
	s := newSuiteWithout(t, "the writer lock", fmt.Sprintf("%d aggregators and ingest at once", aggregators), trials)
	eachTrial(t, s, trials, func(st *stack) tally {
		st.shadow(noWriterLock)
		found, _ := st.crowdTrial(aggregators)
		return found
	})
}

// noWriterLock stands before the function that tries the writer lock: whoever asks gets it.
const noWriterLock = `CREATE FUNCTION pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'`

// shadow makes a function that stands before the database's own, for whoever connects from now on.
func (s *stack) shadow(function string) {
	s.t.Helper()
	s.exec(function)
	s.exec(`DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`)
}

// eachTrial runs trials one after the other, each on servers of its own that it leaves when it is over.
func eachTrial(t *testing.T, s *suite, trials int, trial func(*stack) tally) {
	t.Helper()
	for i := range trials {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) { s.add(trial(newStack(t))) })
	}
}

// exec runs a statement on a connection of its own, for which no settings count that a trial made before.
func (s *stack) exec(sql string, args ...any) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.database)
	require.NoError(s.t, err)
	defer func() { _ = conn.Close(s.t.Context()) }()
	_, err = conn.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

// crowdSize is how many users a trial has, and how many sessions of them must stand in the end.
func crowdSize() (users, sessions int) {
	if scale() == 0 {
		return 60, 183
	}
	return 400, 1220
}

// mostCycles are far more than it takes to bring a trial to its end.
const mostCycles = 100

// crowdTrial starts aggregators, gives them the first part of everybody's events at once, and uploads the rest while they
// work. skipped is how often one found that another one had a user.
func (s *stack) crowdTrial(aggregators int) (found tally, skipped int) {
	pool := openPool(s.t, s.database)
	defer pool.Close()
	c := newCrowd(crowdSize())
	base, server := s.serve("--no-aggregate", "--ingest-per-hour=0")
	var workers []*process
	between := time.Duration(aggregators) * 5 * time.Millisecond // between two cycles: all together, one every 5 ms
	for range aggregators {
		workers = append(workers, start(s.t, s.command(context.WithoutCancel(s.t.Context()), "worker",
			"--aggregate-every="+between.String(), "--publish-every=2s", "--verify-every=0")))
	}
	for _, w := range workers {
		w.stderr.await(s.t, "msg=working", w.done)
	}
	c.insert(s.t, pool)
	found.Errors += c.upload(s.t, base)
	require.Eventually(s.t, func() bool { // who was set aside is not waited for
		return rows[struct{ N int64 }](s.t, pool, `SELECT count(*) FROM hot_runs h
			WHERE NOT EXISTS (SELECT 1 FROM finalize_failures f WHERE f.user_id = h.user_id)`)[0].N == 0
	}, time.Minute, 5*time.Millisecond)
	for _, w := range workers {
		require.NoError(s.t, w.stop(s.t, syscall.SIGTERM))
		found.Errors += s.faultsIn(w.stderr.String())
		skipped += loggedSum("skipped", w.stderr.String())
	}
	require.NoError(s.t, server.stop(s.t, syscall.SIGTERM))
	left := 1
	for n := 0; n < mostCycles && left > 0; n++ {
		stats := s.workerOnce()
		found.Errors += int64(stats.Aggregate.Failed)
		left = stats.Aggregate.Due + stats.Publish.Left
	}
	found.Errors += int64(left) // who comes to no end
	found.add(s.standing(pool, c.sessions()))
	return found, skipped
}

// faultsIn counts the lines of a process's log that report what must not be, and shows the first. That a query was slow is
// no fault, nor that the servers of tests are not made to last, nor what is left to others at the end, nor what was put off on
// a machine with too much to do: whatever is pending in the end counts.
func (s *stack) faultsIn(log string) (n int64) {
	for line := range strings.Lines(log) {
		isFault := strings.Contains(line, " level=ERROR ") || strings.Contains(line, " level=WARN ")
		isSlow := strings.Contains(line, " msg=query ") && !strings.Contains(line, " sqlstate=")
		isLeft := strings.Contains(line, "another process takes over") // who is told to stop does not wait long
		isPutOff := strings.Contains(line, "no answer from Redis; ") && strings.Contains(line, "it stays pending")
		if !isFault || isSlow || isLeft || isPutOff || strings.Contains(line, "Redis is not set up") {
			continue
		}
		if n++; n == 1 {
			s.t.Log(line)
			said(line)
		}
	}
	return n
}

// loggedSum adds up a number that a log reports by name.
func loggedSum(name, log string) (sum int) {
	for field := range strings.FieldsSeq(log) {
		if value, ok := strings.CutPrefix(field, name+"="); ok {
			n, _ := strconv.Atoi(value)
			sum += n
		}
	}
	return sum
}

// crowd is a number of users, and what each did: part of it is in the hot table when a trial begins, and part is uploaded.
type crowd struct {
	r     *rand.Rand
	users []*busyUser
}

type busyUser struct {
	id     uuid.UUID
	token  string
	zone   string
	events []plainEvent
	early  []plainEvent // of events, those that are hot from the start
}

func newBusyUser(zone string) *busyUser {
	id := uuid.New()
	return &busyUser{id: id, token: admission.NewToken(id), zone: zone}
}

type plainEvent struct {
	id   uuid.UUID
	ts   int64 // milliseconds since the epoch
	lang string
}

func newCrowd(users, sessions int) *crowd {
	c := &crowd{r: rand.New(rand.NewPCG(rand.Uint64(), 1))} //nolint:gosec // nothing here is secret
	begin := clock.System{}.Now().Add(-24 * time.Hour).Unix()
	for i := range users {
		u := newBusyUser([]string{"UTC", "Asia/Tokyo", "America/St_Johns"}[i%3])
		at := begin + c.r.Int64N(3600)
		for range sessions/users + b2i(i < sessions%users) {
			at = c.session(u, at)
		}
		c.users = append(c.users, u)
	}
	return c
}

// session gives a user a session that begins at a second, and returns where the next one may begin: often right after
// the idle time. Many gaps are just not over it, so that without one event the session falls apart.
func (c *crowd) session(u *busyUser, at int64) (next int64) {
	for n := 3 + c.r.IntN(6); n > 0; n-- {
		e := plainEvent{uuid.New(), at*1000 + c.r.Int64N(1000), []string{"go", "c++", "typescript"}[c.r.IntN(3)]}
		u.events = append(u.events, e)
		if c.r.IntN(2) == 0 {
			u.early = append(u.early, e)
		}
		if n > 1 {
			at += []int64{0, 60, 900, 300 + c.r.Int64N(601)}[c.r.IntN(4)]
		}
	}
	return at + 901 + c.r.Int64N(2)*c.r.Int64N(3600)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sessions are those that must stand, by the rules of time alone.
func (c *crowd) sessions() (out []span) {
	for _, u := range c.users {
		out = append(out, u.spans()...)
	}
	return out
}

// spans are the sessions of a user's events.
func (u *busyUser) spans() []span { return spansOf(u.id, seconds(u.events)) }

func seconds(events []plainEvent) (out []int64) {
	for _, e := range events {
		out = append(out, e.ts/1000)
	}
	return out
}

// insert makes the users, and their early events hot, in one transaction.
func (c *crowd) insert(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var users, zones, events, runs [][]any
	for _, u := range c.users {
		hash := admission.HashToken(u.token)
		users = append(users, []any{u.id, "user-" + u.id.String()[:13], hash[:]})
		zones = append(zones, []any{u.id, 0, u.zone})
		for _, e := range u.early {
			events = append(events, []any{u.id, e.id, e.ts, e.lang, 1, 0})
		}
		for _, run := range spansOf(u.id, seconds(u.early)) {
			runs = append(runs, []any{u.id, run.Start + 60, run.End})
		}
	}
	copyRows(t, pool, []copied{
		{"users", []string{"id", "handle", "token_hash"}, users},
		{"user_zones", []string{"user_id", "from_s", "zone"}, zones},
		{"events", []string{"user_id", "id", "ts", "lang", "keystrokes", "lines"}, events},
		{"hot_runs", []string{"user_id", "first_s", "last_s"}, runs},
	})
}

// copied is rows for a table.
type copied struct {
	table   string
	columns []string
	rows    [][]any
}

// copyRows inserts into tables in one transaction.
func copyRows(t *testing.T, pool *pgxpool.Pool, tables []copied) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, c := range tables {
			if _, err := tx.CopyFrom(t.Context(), pgx.Identifier{c.table}, c.columns, pgx.CopyFromRows(c.rows)); err != nil {
				return fmt.Errorf("copy into %s: %w", c.table, err)
			}
		}
		return nil
	}))
}

// crowdUploads is how many uploads of a trial are under way at once.
const crowdUploads = 6

// upload sends the events that are not early, in some order and in parts, with early ones among them again, and a third
// of the parts twice, as a client does that saw no answer. It counts the requests that were not answered by 202.
func (c *crowd) upload(t *testing.T, base string) (failed int64) {
	t.Helper()
	type request struct{ token, body string }
	var requests []request
	for _, u := range c.users {
		isEarly := map[uuid.UUID]bool{}
		for _, e := range u.early {
			isEarly[e.id] = true
		}
		rest := slices.DeleteFunc(slices.Clone(u.events), func(e plainEvent) bool { return isEarly[e.id] && c.r.IntN(4) > 0 })
		c.r.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		for part := range slices.Chunk(rest, 4+c.r.IntN(8)) {
			for range 1 + b2i(c.r.IntN(3) == 0) {
				requests = append(requests, request{u.token, bodyOf(part)})
			}
		}
	}
	c.r.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	client := newClient(t, crowdUploads)
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := make(chan request)
	for range crowdUploads {
		wg.Go(func() {
			for r := range next {
				if status := client.post(t.Context(), base+"/v1/ingest", r.token, r.body); status != http.StatusAccepted {
					said(fmt.Sprintf("an upload was answered by %d", status))
					mu.Lock()
					failed++
					mu.Unlock()
				}
			}
		})
	}
	for _, r := range requests {
		next <- r
	}
	close(next)
	wg.Wait()
	return failed
}

func bodyOf(events []plainEvent) string {
	var b strings.Builder
	for i, e := range events {
		b.WriteString([]string{`{"events":[`, `,`}[min(i, 1)])
		fmt.Fprintf(&b, `{"id":"%s","ts":%d,"lang":"%s","keystrokes":1,"lines":0}`, e.id, e.ts, e.lang)
	}
	b.WriteString(`]}`)
	return b.String()
}

// client sends many requests at once over connections that it keeps.
type client struct{ http http.Client }

func newClient(t *testing.T, conns int) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: conns}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{http.Client{Transport: transport}}
}

// post returns the status of the answer, or 0 when none came.
func (c *client) post(ctx context.Context, url, token, body string) (status int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}
