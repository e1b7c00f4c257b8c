package tests

import (
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/ingest"
)

// A flood is 100,000 events in requests that are all sent at once.
const floodRequests, floodEvents = 200, 500

// While one user floods the API, another's request waits for the commit groups that are under way, of which the first to
// end takes it along, and for no further one; and when both are due, no other user is finalized after the flood. Both
// are counted by the order of transactions, not timed.
func TestTrialsFlood(t *testing.T) {
	alongside(t)
	trials := scaled(5, 1)
	uploads := newSuite(t, "an upload beside a flood of 100,000 events", trials)
	cycles := newSuite(t, "a finalize beside a flood of 100,000 events", trials)
	eachTrial(t, uploads, trials, func(st *stack) tally {
		upload, cycle := st.floodTrial(1)
		cycles.add(cycle)
		return upload
	})
}

// The trials see what they are there to see: where the same flood comes from as many users as it has requests, so that
// neither the writer nor the aggregator can tell that it is one, the other user waits behind it.
func TestTrialsFloodWithoutTellingItApart(t *testing.T) {
	alongside(t)
	trials := scaled(2, 1)
	uploads := newSuiteWithout(t, "telling whose it is", "an upload beside a flood of 100,000 events", trials)
	cycles := newSuiteWithout(t, "telling whose it is", "a finalize beside a flood of 100,000 events", trials)
	eachTrial(t, uploads, trials, func(st *stack) tally {
		upload, cycle := st.floodTrial(floodRequests)
		cycles.add(cycle)
		return upload
	})
}

// floodTrial floods from so many users. It books what waited behind the flood as errors.
func (s *stack) floodTrial(flooders int) (upload, cycle tally) {
	pool := openPool(s.t, s.database)
	defer pool.Close()
	f := newFlood(flooders)
	f.insert(s.t, pool)
	base, _ := s.serve("--no-aggregate", "--ingest-per-hour=0")
	f.run(s.t, pool, base)
	// Groups of the flood that began before the first with a request of the other user. What was under way when that
	// request came in is no fault: it waits for the first of them to end.
	before := rows[struct{ N int }](s.t, pool, `SELECT count(DISTINCT xmin::text) FROM events WHERE user_id = ANY ($1)
		AND xmin::text::bigint < (SELECT min(xmin::text::bigint) FROM events WHERE user_id = $2)`, f.ids(), f.other.id)[0].N
	upload.Errors = int64(max(0, before-ingest.DefaultWriterConfig().Flushers))
	upload.Expected = int64(len(f.other.events))
	upload.Found = rows[struct{ N int64 }](s.t, pool, `SELECT count(*) FROM events WHERE user_id = $1`, f.other.id)[0].N
	upload.Lost = max(0, upload.Expected-upload.Found)

	stats := s.workerOnce("--parallel=1")
	cycle.Errors = b2n(stats.Aggregate.Finalized != len(f.users))
	// Users who were finalized after the flood, or after some of it.
	cycle.Errors += rows[struct{ N int64 }](s.t, pool, `SELECT count(DISTINCT user_id) FROM sessions WHERE user_id <> ALL ($1)
		AND xmin::text::bigint > (SELECT min(xmin::text::bigint) FROM sessions WHERE user_id = ANY ($1))`, f.ids())[0].N
	cycle.add(s.standing(pool, f.sessions()))
	s.t.Logf("before the other's request: %d commit groups; %d users finalized after the flood", before, cycle.Errors)
	return upload, cycle
}

// flood is a crowd with those who flood, who have the oldest events and would be finalized first, and one who uploads
// meanwhile.
type flood struct {
	*crowd
	flooders []*busyUser
	other    *busyUser
}

func newFlood(flooders int) *flood {
	f := &flood{crowd: newCrowd(20, 60)}
	for _, u := range f.users {
		u.early = u.events
	}
	begin := clock.System{}.Now().Add(-60 * time.Hour).Unix()
	for range flooders {
		f.flooders = append(f.flooders, newBusyUser("UTC"))
	}
	for i := range floodRequests * floodEvents {
		u := f.flooders[i/floodEvents%flooders]
		u.events = append(u.events, plainEvent{uuid.New(), (begin + int64(i)) * 1000, "go"})
	}
	f.other = newBusyUser("UTC")
	for i := range ingest.DefaultWriterConfig().QueuePerUser + 1 {
		f.other.events = append(f.other.events, plainEvent{uuid.New(), (begin + 200_000 + int64(i)) * 1000, "go"})
	}
	f.users = append(append(f.users, f.flooders...), f.other)
	return f
}

func (f *flood) ids() (ids []uuid.UUID) {
	for _, u := range f.flooders {
		ids = append(ids, u.id)
	}
	return ids
}

// run floods, and uploads for the other user as soon as the flood stands: nothing is stored until both wait. The other
// user sends one request more than may wait, so that the refusal of one shows that the rest is waiting.
func (f *flood) run(t *testing.T, pool *pgxpool.Pool, base string) {
	t.Helper()
	cfg := ingest.DefaultWriterConfig()
	requests := make([][]plainEvent, 0, floodRequests)
	for _, u := range f.flooders {
		for i := 0; i < len(u.events); i += floodEvents {
			requests = append(requests, u.events[i:i+floodEvents])
		}
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE events IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)

	send := &sender{t: t, url: base + "/v1/ingest", client: newClient(t, floodRequests), stored: make(chan struct{})}
	var flooded, others atomic.Int64 // refused for now
	for i, events := range requests {
		send.untilStored(f.flooders[i%len(f.flooders)], events, &flooded)
	}
	require.Eventually(t, func() bool {
		return flooded.Load() >= int64(floodRequests-cfg.Flushers-len(f.flooders)*cfg.QueuePerUser) &&
			admitted(t, base) >= floodRequests && groupsHeld(t, pool) == cfg.Flushers
	}, 30*time.Second, 5*time.Millisecond)
	for i := range f.other.events {
		send.untilStored(f.other, f.other.events[i:i+1], &others)
	}
	require.Eventually(t, func() bool { return others.Load() > 0 }, 30*time.Second, time.Millisecond)
	require.NoError(t, tx.Rollback(t.Context()))
	close(send.stored)
	send.wg.Wait()
}

// sender sends requests at once. Those that are refused are sent again when something was stored.
type sender struct {
	t      *testing.T
	url    string
	client *client
	stored chan struct{}
	wg     sync.WaitGroup
}

func (s *sender) untilStored(u *busyUser, events []plainEvent, refused *atomic.Int64) {
	body := bodyOf(events)
	s.wg.Go(func() {
		for s.client.post(s.t.Context(), s.url, u.token, body) != http.StatusAccepted {
			refused.Add(1)
			select {
			case <-s.stored:
			case <-s.t.Context().Done():
				return
			}
			_ = clock.Sleep(s.t.Context(), 10*time.Millisecond)
		}
	})
}

// groupsHeld is how many commit groups wait for the lock on the hot table.
func groupsHeld(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return rows[struct{ N int }](t, pool, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE d.datname = current_database() AND l.relation = 'events'::regclass AND NOT l.granted`)[0].N
}

var admissions = regexp.MustCompile(`(?m)^commma_admissions_total\{.*scope="ingest".*\} (\d+)$`)

// admitted is how many uploads a server has begun with.
func admitted(t *testing.T, base string) (sum int) {
	t.Helper()
	_, text := call(t, http.MethodGet, base+"/metrics", "", "")
	for _, m := range admissions.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		sum += n
	}
	return sum
}
