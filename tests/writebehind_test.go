package tests

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/views"
	"github.com/commma/commma/internal/writebehind"
)

// The children of the suites below: this test binary, which flushes once; as it is, or with a guard taken out.
const (
	childFlush         = "flush"
	childFlushNoID     = "flush without ids"
	childFlushNoRename = "flush without the rename"
)

// flushChild flushes views and visits once.
func flushChild(ctx context.Context, mode string) error {
	pool, err := store.Open(ctx, os.Getenv("COMMMA_DATABASE_URL"), store.Options{MaxConns: 1})
	if err != nil {
		return err
	}
	defer pool.Close()
	rdb, err := redisconn.Open(ctx, os.Getenv("COMMMA_REDIS_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	if mode == childFlush {
		_, err := flusherOf(pool, rdb).Flush(ctx)
		return err
	}
	for _, k := range []writebehind.Kind{views.Kind(), lastseen.Kind()} {
		keys := writebehind.KeysOf(k.Name, 0)
		b := writebehind.Buffer{DB: pool, Source: writebehind.NewSource(rdb, keys), Apply: k.Apply, Record: writebehind.NewRecord(k.Name)}
		if mode == childFlushNoID {
			b.Record = recordNothing
		} else {
			b.Source = readAndDelete{rdb, keys}
		}
		if _, err := b.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func flusherOf(pool *pgxpool.Pool, rdb redis.UniversalClient) *writebehind.Flusher {
	return writebehind.NewFlusher(pool, rdb, clock.System{}, views.Kind(), lastseen.Kind())
}

// recordNothing takes every batch for a new one.
func recordNothing(context.Context, pgx.Tx, writebehind.Batch, time.Time) (bool, error) {
	return true, nil
}

// readAndDelete is a source without the rename: it reads the buffer, and deletes it once it is applied.
type readAndDelete struct {
	rdb  redis.UniversalClient
	keys writebehind.Keys
}

func (s readAndDelete) Take(ctx context.Context) (writebehind.Batch, bool, error) {
	n, err := s.rdb.Exists(ctx, s.keys.Buf).Result()
	return writebehind.Batch{ID: uuid.New()}, n == 1, err
}

func (s readAndDelete) Read(ctx context.Context, _ writebehind.Batch) (map[string]string, error) {
	return s.rdb.HGetAll(ctx, s.keys.Buf).Result()
}

func (s readAndDelete) Done(ctx context.Context, _ writebehind.Batch) error {
	return s.rdb.Del(ctx, s.keys.Buf).Err()
}

// flushTrial has an owner whose profile and sessions are looked at, one of which was absorbed and one of which is gone, and
// visitors who were seen.
type flushTrial struct {
	*stack
	pool     *pgxpool.Pool
	rdb      redis.UniversalClient
	recorder *views.Recorder
	owner    uuid.UUID
	pages    []views.Target // the last one is gone
	heir     uuid.UUID
	visitors []uuid.UUID
	profile  int64               // views that must be counted
	sessions map[uuid.UUID]int64 // the same
	seen     map[uuid.UUID]int64 // milliseconds
}

func newFlushTrial(t *testing.T) *flushTrial {
	t.Helper()
	s := newStack(t)
	f := &flushTrial{stack: s, pool: openPool(t, s.database), owner: uuid.New(), sessions: make(map[uuid.UUID]int64), seen: make(map[uuid.UUID]int64)}
	t.Cleanup(f.pool.Close)
	var err error
	f.rdb, err = redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.rdb.Close() })
	f.recorder = views.NewRecorder(f.rdb, clock.System{}, nopLogger(), views.RecorderConfig{Timeout: time.Minute})
	f.exec(`INSERT INTO user_counters (user_id) VALUES ($1)`, f.owner)
	f.heir = uuid.New()
	absorbed, plain, gone := uuid.New(), uuid.New(), uuid.New()
	f.exec(`INSERT INTO session_counters (user_id, session_id) VALUES ($1, $2), ($1, $3)`, f.owner, f.heir, plain)
	f.exec(`INSERT INTO session_aliases (id, user_id, heir) VALUES ($1, $2, $3)`, absorbed, f.owner, f.heir)
	for _, session := range []uuid.UUID{uuid.Nil, absorbed, f.heir, plain, gone} {
		f.pages = append(f.pages, views.Target{Owner: f.owner, Session: session})
	}
	for range 3 {
		id := uuid.New()
		f.exec(`INSERT INTO user_counters (user_id) VALUES ($1)`, id)
		f.visitors = append(f.visitors, id)
	}
	return f
}

func (f *flushTrial) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(f.t.Context(), sql, args...)
	require.NoError(f.t, err)
}

// wave accepts a look at each page from two viewers, and a visit of each visitor.
func (f *flushTrial) wave() {
	f.t.Helper()
	for i, page := range f.pages {
		for range 2 {
			require.True(f.t, f.recorder.Record(f.t.Context(), views.Viewer{User: uuid.New()}, page))
		}
		switch i {
		case 0:
			f.profile += 2
		case 1, 2:
			f.sessions[f.heir] += 2
		case 3:
			f.sessions[page.Session] += 2
		}
	}
	for _, id := range f.visitors {
		f.seen[id] = clock.System{}.Now().UnixMilli()
		require.NoError(f.t, f.rdb.HSet(f.t.Context(), writebehind.KeysOf(lastseen.Name, 0).Buf, id.String(), f.seen[id]).Err())
	}
}

// child is a process that flushes, on servers that it may reach through a crash point.
func (s *stack) child(mode string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), "COMMMA_DATABASE_URL="+s.database, "COMMMA_REDIS_URL="+s.rdb, childMode+"="+mode)
	return cmd
}

// flushAll flushes, two at once, until nothing is left: Postgres may take a moment to notice that a process is gone, and its
// transaction holds rows until then.
func (f *flushTrial) flushAll() {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		var flushers sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			flushers.Go(func() { _, errs[i] = flusherOf(f.pool, f.rdb).Flush(f.t.Context()) })
		}
		flushers.Wait()
		left := f.rdb.Exists(f.t.Context(), writebehind.KeysOf(views.Name, 0).Buf, writebehind.KeysOf(views.Name, 0).Proc,
			writebehind.KeysOf(lastseen.Name, 0).Buf, writebehind.KeysOf(lastseen.Name, 0).Proc).Val()
		return errs[0] == nil && errs[1] == nil && left == 0
	}, time.Minute, 20*time.Millisecond)
}

// standing compares what was counted with what was accepted.
func (f *flushTrial) standing() tally {
	f.t.Helper()
	var found tally
	book := func(want, got int64) {
		found.Expected += want
		found.Found += got
		found.Duplicates += max(got-want, 0)
		found.Lost += max(want-got, 0)
	}
	type count struct {
		ID uuid.UUID
		N  int64
	}
	for _, r := range rows[count](f.t, f.pool, `SELECT user_id, views FROM user_counters WHERE user_id = $1`, f.owner) {
		book(f.profile, r.N)
	}
	var onSessions int64
	for _, r := range rows[count](f.t, f.pool, `SELECT session_id, views FROM session_counters`) {
		book(f.sessions[r.ID], r.N)
		onSessions += f.sessions[r.ID]
	}
	type days struct{ Profile, Sessions int64 }
	for _, r := range rows[days](f.t, f.pool, `SELECT sum(profile)::bigint, sum(sessions)::bigint FROM view_days`) {
		book(f.profile, r.Profile)
		book(onSessions, r.Sessions)
	}
	for _, r := range rows[count](f.t, f.pool, `SELECT user_id, coalesce(extract(epoch FROM last_seen_at) * 1000, 0)::bigint FROM user_counters WHERE user_id <> $1`, f.owner) {
		found.Drift += max(f.seen[r.ID]-r.N, 0) // milliseconds by which it is older than the last flushed touch
	}
	return found
}

// killed runs a flusher that dies at a round trip; what comes after it finds its batch.
func (f *flushTrial) killed(mode string, at int, after bool) (found tally, killed bool) {
	f.wave()
	fragile, crash := f.fragile(at, after)
	cmd := fragile.child(mode)
	crash.kill = func() { _ = cmd.Process.Kill() }
	crash.mu.Lock() // until the process is known
	require.NoError(f.t, cmd.Start())
	crash.mu.Unlock()
	err := cmd.Wait()
	if !crash.fired {
		require.NoError(f.t, err)
	}
	f.wave()
	f.flushAll()
	return f.standing(), crash.fired
}

// stopped runs a flusher that is stopped at a round trip and woken late, when others have flushed, and one of them died with
// a later batch in hand.
func (f *flushTrial) stopped(mode string, at int, after bool) (found tally, stopped bool) {
	f.wave()
	fragile, crash := f.fragile(at, after)
	crash.resume = make(chan struct{})
	cmd := fragile.child(mode)
	reached := make(chan struct{})
	crash.kill = func() {
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		close(reached)
	}
	crash.mu.Lock() // until the process is known
	p := start(f.t, cmd)
	crash.mu.Unlock()
	select {
	case <-p.done:
		require.NoError(f.t, p.err)
		close(crash.resume)
		return tally{}, false
	case <-reached:
	}
	if mode == childFlush {
		// While the stopped one holds rows, these do not come further.
		_, _ = flusherOf(f.pool, f.rdb).Flush(f.t.Context())
		f.wave()
		_, _ = flusherOf(f.pool, f.rdb).Flush(f.t.Context())
	}
	f.wave()
	if mode == childFlush {
		for _, name := range []string{views.Name, lastseen.Name} {
			_, _, err := writebehind.NewSource(f.rdb, writebehind.KeysOf(name, 0)).Take(f.t.Context())
			require.NoError(f.t, err)
		}
		f.wave()
	}
	_ = cmd.Process.Signal(syscall.SIGCONT) // unless it has ended
	close(crash.resume)
	<-p.done // it may have failed: its connections stood still
	f.flushAll()
	return f.standing(), true
}

func TestTrialsViewsAndLastSeenFlusherKilledAtEveryRoundTrip(t *testing.T) {
	eachCrashPoint(t, "flusher of views and visits", func(t *testing.T, at int, after bool) (tally, bool) {
		return newFlushTrial(t).killed(childFlush, at, after)
	})
}

func TestTrialsViewsAndLastSeenFlusherStoppedAtEveryRoundTrip(t *testing.T) {
	alongside(t)
	s := newSuite(t, "flusher of views and visits stopped at every round trip and woken late", 0)
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			t.Parallel()
			start, stride := crashStride()
			for at := start; ; at += stride {
				found, stopped := newFlushTrial(t).stopped(childFlush, at, after)
				s.add(found)
				if !stopped {
					require.Greater(t, at, start)
					return
				}
			}
		})
	}
}

// untilFault runs trials at one crash point after the other until one shows a fault, or the process lives.
func untilFault(s *suite, trial func(at int) (tally, bool)) {
	for at := 1; ; at++ {
		found, fired := trial(at)
		s.add(found)
		if found.faults() > 0 || !fired {
			return
		}
	}
}

// A process that dies between the commit and the end of its batch has it applied twice, where no flush id is recorded.
func TestTrialsViewsWithoutFlushIDs(t *testing.T) {
	alongside(t)
	s := newSuiteWithout(t, "the flush id", "flusher of views killed at every round trip", 0)
	untilFault(s, func(at int) (tally, bool) { return newFlushTrial(t).killed(childFlushNoID, at, true) })
	require.Positive(t, s.sum.Duplicates)
}

// What comes between reading the buffer and deleting it is lost, where the buffer is not renamed.
func TestTrialsViewsWithoutTheRename(t *testing.T) {
	alongside(t)
	s := newSuiteWithout(t, "the rename", "flusher of views stopped at every round trip", 0)
	untilFault(s, func(at int) (tally, bool) { return newFlushTrial(t).stopped(childFlushNoRename, at, false) })
	require.Positive(t, s.sum.Lost)
}

// A look is sent again until it is answered, through a server that dies once on the way: it counts once, and its viewer was
// seen.
func TestTrialsViewsServerKilledAtEveryRoundTripOfALook(t *testing.T) {
	eachCrashPoint(t, "server that takes a look at a profile", func(t *testing.T, at int, after bool) (tally, bool) {
		s := newStack(t)
		pool := openPool(t, s.database)
		defer pool.Close()
		s.createUser("owner", "UTC")
		viewer := s.createUser("viewer", "UTC")
		fragile, crash := s.fragile(at, after)
		killed, _ := fragile.requestThrough(crash, http.MethodGet, "/v1/users/owner", viewer.Token, "")
		s.lookUntilTaken("owner", viewer)
		s.run("worker", "--once")
		counts := rows[struct{ Views, Seen int64 }](t, pool, `SELECT max(c.views) FILTER (WHERE u.handle = 'owner'),
			count(c.last_seen_at) FILTER (WHERE u.handle = 'viewer') FROM user_counters c JOIN users u ON u.id = c.user_id`)[0]
		return tally{
			Expected: 2, Found: counts.Views + counts.Seen,
			Duplicates: max(counts.Views-1, 0), Lost: max(1-counts.Views, 0) + 1 - counts.Seen,
		}, killed
	})
}

// lookUntilTaken looks at a profile as often as it takes until Redis has taken the view and the visit, which it need not do
// when it, or the machine, is slow. That is seen by the gate and by the marker.
func (s *stack) lookUntilTaken(handle string, viewer createdUser) {
	t := s.t
	t.Helper()
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	defer func() { _ = rdb.Close() }()
	base, _ := s.serve("--no-aggregate")
	require.Eventually(t, func() bool {
		status, answer := call(t, http.MethodGet, base+"/v1/users/"+handle, viewer.Token, "")
		require.Equal(t, http.StatusOK, status, answer)
		return len(rdb.Keys(t.Context(), "view:{*").Val()) > 0 && len(rdb.Keys(t.Context(), "seen:*:"+viewer.ID).Val()) > 0
	}, time.Minute, 10*time.Millisecond)
}
