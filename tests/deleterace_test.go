package tests

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
)

const (
	deleteRounds = 400
	deleteSample = 24
	// heatSize is how many rounds are played at once.
	heatSize = 40
)

// Users are deleted, and sessions of users, whatever is under way: uploads, changes of the account, an aggregator, which fails
// for some, a publisher, boards that are built anew, and caches that are filled, all on a slow network. Who is gone has left
// nothing, and of the others nothing is missing.
func TestTrialsDeleteInARace(t *testing.T) {
	alongside(t)
	planned := scaled(deleteRounds, deleteSample)
	s := newSuite(t, "delete in a race", planned)
	seen := map[string]int64{}
	eachHeat(t, s, planned, func(st *stack, rounds int) {
		d := newDeleteRace(st)
		d.heat(s, rounds)
		for table, n := range d.seen {
			seen[table] += n
		}
	})
	delete(seen, pendingRow) // who is pending is soon published
	for table, n := range seen {
		require.Positive(t, n, "nothing of anybody stood in %s before a delete", table)
	}
}

// Where deletes do not wait for uploads, events are stored of users who are gone. The database itself says that nobody holds
// the lock, by a function that stands before its own; the writer lock is another function.
func TestTrialsDeleteInARaceWithoutTheLock(t *testing.T) {
	alongside(t)
	s := newSuiteWithout(t, "the ingest lock", "delete in a race", roundsWithout)
	eachHeat(t, s, roundsWithout, func(st *stack, rounds int) {
		st.exec(`CREATE FUNCTION pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE sql AS ''`)
		st.exec(`DO $$ BEGIN
			EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`)
		newDeleteRace(st).heat(s, rounds)
	})
}

// eachHeat plays so many rounds, some at once, each lot on servers of its own.
func eachHeat(t *testing.T, s *suite, planned int, heat func(st *stack, rounds int)) {
	t.Helper()
	for done := 0; done < planned && !s.seen() && !t.Failed(); done += heatSize {
		t.Run(strconv.Itoa(done), func(t *testing.T) { heat(newStack(t), min(heatSize, planned-done)) })
	}
}

// deleteRace is where deletes race.
type deleteRace struct {
	*arena
	of         *userRows
	reader     *leaderboard.Reader
	aggregator *aggregate.Aggregator
	fan        *deleter                          // who stays, and whom everybody knows
	beside     []func(ctx context.Context) error // what goes on all the time

	seenMu sync.Mutex
	seen   map[string]int64 // rows of users just before they were deleted, by table
}

func newDeleteRace(s *stack) *deleteRace {
	t := s.t
	t.Helper()
	d := &deleteRace{arena: newArena(t, s), seen: map[string]int64{}}
	d.of = newUserRows(t, d.pool)
	d.reader = leaderboard.NewReader(d.pool, d.direct, leaderboard.ReaderConfig{RedisTimeout: 5 * time.Second})
	d.aggregator = aggregate.New(d.pool, d.final, clock.System{}, nopLogger(), 4)
	// Whoever stands in this table cannot be finalized.
	s.exec(`CREATE SCHEMA trial`)
	s.exec(`CREATE TABLE trial.failing (id uuid PRIMARY KEY)`)
	s.exec(`CREATE FUNCTION trial.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF EXISTS (SELECT FROM trial.failing f WHERE f.id = NEW.user_id) THEN RAISE EXCEPTION 'no' USING ERRCODE = '22003'; END IF;
		RETURN NEW; END $$`)
	s.exec(`CREATE TRIGGER fail BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION trial.fail()`)
	for range 2 {
		slow := d.slowly()
		d.bases = append(d.bases, startNode(t, nodeConfig{database: slow.database, rdb: slow.rdb, ttl: shortTTL}))
	}
	d.startWorker(d.slowly())
	return d
}

// slowly is the way to the servers on a slow network. Now and then a statement comes so late that another process gets on by
// several.
func (d *deleteRace) slowly() *stack {
	d.t.Helper()
	database := &slowProxy{t: d.t, max: mostDelay, split: true, stall: 4 * mostDelay, stallOneIn: 8}
	rdb := &slowProxy{t: d.t, max: mostDelay}
	return &stack{t: d.t, database: database.through(d.database), rdb: rdb.through(d.rdb)}
}

// startWorker sets up what goes on beside the rounds: aggregators, a publisher, a rebuild of one board after the other,
// and that all who are set aside are tried again at once, so that somebody fails all the time.
func (d *deleteRace) startWorker(s *stack) {
	t := d.t
	t.Helper()
	pool, err := store.Open(t.Context(), s.database, store.Options{AppName: "worker", MaxConns: 16, Tracer: lateFailures{}})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	p, b := publisher(pool, rdb), leaderboard.NewBuilder(pool, rdb, languages.Keys(), nopLogger())
	a := aggregate.New(pool, d.final, clock.System{}, nopLogger(), 4)
	cycle := func(ctx context.Context) error {
		_, err := a.Cycle(ctx, nil)
		return err
	}
	d.beside = []func(ctx context.Context) error{
		cycle, cycle,
		func(ctx context.Context) error {
			_, err := p.Cycle(ctx, nil)
			return err
		},
		func(ctx context.Context) error {
			_, err := p.Cycle(ctx, nil)
			return err
		},
		func(ctx context.Context) error {
			boards, err := b.Kept(ctx, nil)
			if err == nil && len(boards) > 0 {
				_, err = b.Build(ctx, boards[rand.IntN(len(boards))])
			}
			return err
		},
		func(ctx context.Context) error {
			_, err := d.pool.Exec(ctx, `UPDATE finalize_failures SET next_try_at = now() - interval '1 second'`)
			return err
		},
	}
}

// lateFailures holds back that a user is set aside: who fails and is deleted next must not be written down after that.
type lateFailures struct{}

func (lateFailures) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "INTO finalize_failures") {
		_ = clock.Sleep(ctx, time.Duration(rand.Int64N(int64(8*mostDelay))))
	}
	return ctx
}

func (lateFailures) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// heat plays so many rounds at once, with bystanders, and compares when all is over.
func (d *deleteRace) heat(s *suite, rounds int) {
	t := d.t
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var beside, playing errgroup.Group
	for _, loop := range d.beside {
		beside.Go(func() error {
			for ctx.Err() == nil {
				_ = loop(context.WithoutCancel(ctx)) // what it could not do, the next one does
				_ = clock.Sleep(ctx, 10*time.Millisecond)
			}
			return nil
		})
	}
	users := make([]*deleter, rounds+rounds/4)
	d.fan = &deleter{kind: bystands, first: hoursAgo(5)}
	require.NoError(t, d.prepareDelete(ctx, d.fan))
	for i := range users {
		users[i] = &deleter{kind: []deleteKind{deletesUser, deletesSession}[i%2], fails: i%2 == 0 && i%8 != 0, first: hoursAgo(5)}
		if i >= rounds {
			users[i].kind, users[i].fails = bystands, false
		}
		playing.Go(func() error { return d.round(t.Context(), users[i]) })
	}
	err := playing.Wait()
	stop()
	_ = beside.Wait()
	require.NoError(t, err)
	users[0].found.add(d.over(append(users, d.fan)))
	for _, u := range users[:rounds] {
		s.add(u.found)
	}
}

// over lets what is left to do be done, and compares: nothing of who is gone, and of the others all.
func (d *deleteRace) over(users []*deleter) (found tally) {
	t := d.t
	d.settled()
	d.workerOnce() // flushes what is written behind
	found.Errors += d.miscounted()
	var gone []uuid.UUID
	var ids []string
	var want []span
	for _, u := range users {
		if u.kind == deletesUser {
			gone, ids = append(gone, u.ID), append(ids, u.ID.String())
			continue
		}
		want = append(want, spansOf(u.ID, u.counting)...)
	}
	places, err := d.of.count(t.Context(), gone...)
	require.NoError(t, err)
	keys := keysThatStay(t, d.direct, ids...)
	found.Leaked = sumOf(places) + int64(len(keys))
	if found.Leaked > 0 {
		t.Logf("when all is over: %v %v", places, keys)
	}
	found.add(d.standing(d.pool, want))
	return found
}

// miscounted is of how many sessions the counts of kudos and comments are not those of their rows.
func (d *deleteRace) miscounted() int64 {
	out, err := d.command(d.t.Context(), "counters", "verify").Output()
	var counts foundCounts
	require.NoError(d.t, json.Unmarshal(out, &counts), "%v", err)
	if counts.Wrong > 0 {
		d.t.Logf("counts that are wrong: %+v", counts)
	}
	return counts.Wrong
}

// settled runs cycles until nothing is left to do, or nothing more comes of them.
func (d *deleteRace) settled() {
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	for {
		did, err := d.aggregator.Cycle(ctx, nil)
		require.NoError(d.t, err)
		published, err := publisher(d.pool, d.direct).Cycle(ctx, nil)
		require.NoError(d.t, err)
		if did.Skipped+did.Retried+published.Left == 0 || clock.Sleep(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// isShown says whether the board of all time shows a user.
func (d *deleteRace) isShown(ctx context.Context, id uuid.UUID) (bool, error) {
	board := leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodAllTime}}
	page, err := d.reader.Page(ctx, clock.System{}.Now(), board, leaderboard.Query{Around: id, Limit: 1})
	return page.Me != nil, err
}

// book notes what stands of a user who is about to be deleted.
func (d *deleteRace) book(places []place) {
	d.seenMu.Lock()
	defer d.seenMu.Unlock()
	for _, p := range places {
		d.seen[p.Place] += p.N
	}
}
