package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
)

// What the races plant: a text in paths and projects, and a number in key counts.
const (
	raceMark  = "zq7secretzq7"
	raceCount = 918273
)

// arena is where rounds of a race take place: servers that are slow, and whoever serves on them.
type arena struct {
	*stack
	pool   *pgxpool.Pool // straight to Postgres
	direct redis.UniversalClient
	scan   *leakScan
	final  *aggregate.Finalizer
	pub    *outbox.Publisher
	client *http.Client
	logs   *logSearch // of all that serves

	mu    sync.Mutex
	bases []string // the APIs that serve now; a killed one leaves its place to the next

	handles  atomic.Int64
	detailed atomic.Int64 // rounds in which there was something to erase
	placed   atomic.Int64 // rounds in which the user had a place to leave
	// epoch is odd while an old file is put in Redis's place, and another one after that.
	epoch atomic.Int64
}

func newArena(t *testing.T, s *stack) *arena {
	t.Helper()
	pool, err := store.Open(t.Context(), s.database, store.Options{AppName: "arena", MaxConns: 12})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	direct, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = direct.Close() })
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	t.Cleanup(transport.CloseIdleConnections)
	logs := &logSearch{secret: secretOf(raceMark), also: [][]byte{[]byte("F12")}}
	return &arena{
		stack: s, pool: pool, direct: direct, logs: logs,
		scan:   newLeakScan(t, pool, raceMark, fmt.Sprint(raceCount)),
		final:  newFinalizer(),
		pub:    publisher(pool, direct),
		client: &http.Client{Transport: transport, Timeout: 15 * time.Second},
	}
}

func (a *arena) base() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bases[rand.IntN(len(a.bases))]
}

func (a *arena) setBase(i int, base string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bases[i] = base
}

// askFor bounds how long a request is sent again.
const askFor = 2 * time.Minute

// ask sends a request, to one API or another, until it is answered with the status that it must get in the end. Who is
// killed or busy is no fault; any other answer is.
func (a *arena) ask(ctx context.Context, method, path, token string, body []byte, want int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for {
		status, answer, err := a.try(ctx, method, a.base()+path, token, body)
		switch {
		case err == nil && status == want:
			return answer, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s %s: %w, last: %d %s %w", method, path, ctx.Err(), status, answer, err)
		case err == nil && status != http.StatusServiceUnavailable:
			return nil, fmt.Errorf("%s %s: %d %s", method, path, status, answer)
		}
		_ = clock.Sleep(ctx, 10*time.Millisecond)
	}
}

func (a *arena) try(ctx context.Context, method, url, token string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := a.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// racer is a user with what is known of the events sent so far.
type racer struct {
	account.Created
	isFull bool
	// At least low and at most high events must stand: what was acknowledged, and what was sent. They differ by what may
	// be dropped with an open run, and by uploads that were stored without an answer.
	low, high atomic.Int64
}

func (a *arena) newRacer(ctx context.Context) (*racer, error) {
	created, err := account.Create(ctx, a.pool, account.NewUser{Handle: fmt.Sprintf("racer-%d", a.handles.Add(1))})
	return &racer{Created: created, isFull: true}, err
}

func (a *arena) change(ctx context.Context, r *racer, mode string) error {
	_, err := a.ask(ctx, http.MethodPatch, "/v1/me", r.Token, []byte(`{"privacy":"`+mode+`"}`), http.StatusOK)
	return err
}

// upload sends n events with all that can be private, from two hours ago or from now, until they are acknowledged.
func (a *arena) upload(ctx context.Context, r *racer, n int, open, mayDrop bool) error {
	at := clock.System{}.Now().UnixMilli()
	if !open {
		at -= (2*time.Hour + time.Duration(rand.IntN(3000))*time.Second).Milliseconds()
	}
	events := make([]string, n)
	for i := range events {
		events[i] = fmt.Sprintf(`{"id":"%s","ts":%d,"lang":"go","keystrokes":5,"lines":1,"file":"/%s/%d.go","project":"%s","key_freq":{"F12":%d}}`,
			uuid.NewString(), at+int64(i), raceMark, rand.Int(), raceMark, raceCount)
	}
	r.high.Add(int64(n))
	answer, err := a.ask(ctx, http.MethodPost, "/v1/ingest", r.Token, []byte(`{"events":[`+strings.Join(events, ",")+`]}`), http.StatusAccepted)
	if err != nil {
		return err
	}
	var got struct{ Received int64 }
	if err := json.Unmarshal(answer, &got); err != nil {
		return err
	}
	if !mayDrop {
		r.low.Add(got.Received)
	}
	return nil
}

// uncache has an API find nothing cached of the user, so that it reads Postgres and fills the cache.
func (a *arena) uncache(ctx context.Context, id uuid.UUID) {
	shards := redisconn.ShardsOf(a.direct)
	a.direct.Del(ctx, "auth:"+shards.Tag(id)+":"+id.String(), privacy.Key(shards, id))
}

func (a *arena) fill(ctx context.Context, r *racer) error {
	a.uncache(ctx, r.ID)
	_, err := a.ask(ctx, http.MethodGet, "/v1/me", r.Token, nil, http.StatusOK)
	return err
}

// place brings the user to the boards, if it can: Redis may be away.
func (a *arena) place(ctx context.Context, r *racer) error {
	if err := a.upload(ctx, r, 1, false, false); err != nil {
		return err
	}
	if err := a.cycle(ctx, r); err != nil {
		return err
	}
	_ = a.pub.PublishUsers(ctx, nil, r.ID)
	shown, err := a.shown(ctx, r)
	if shown {
		a.placed.Add(1)
	}
	return err
}

// shown says whether the user has a place on the all-time board, as an API shows it.
func (a *arena) shown(ctx context.Context, r *racer) (bool, error) {
	answer, err := a.ask(ctx, http.MethodGet, "/v1/leaderboard?period=alltime&around=me&limit=100", r.Token, nil, http.StatusOK)
	if err != nil {
		return false, err
	}
	var board struct {
		Me      *struct{}
		Entries []struct{ Handle string }
	}
	if err := json.Unmarshal(answer, &board); err != nil {
		return false, err
	}
	for _, e := range board.Entries {
		if e.Handle == r.Handle {
			return true, nil
		}
	}
	return board.Me != nil, nil
}

// cycle finalizes all that the user has, as if it were later.
func (a *arena) cycle(ctx context.Context, r *racer) error {
	later := clock.System{}.Now().Add(20 * time.Minute)
	for {
		res, err := a.final.Finalize(ctx, a.pool, r.ID, &later)
		if err != nil || !res.Locked {
			return err
		}
		if err := clock.Sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// standingEvents are a user's events: those still hot, each once, those of them that are of a run that has not ended, and those
// in sessions.
type standingEvents struct{ Hot, Open, Used int64 }

func (a *arena) events(ctx context.Context, r *racer) (standingEvents, error) {
	found, err := collect[standingEvents](ctx, a.pool, `SELECT
		(SELECT count(DISTINCT (id, ts)) FROM events WHERE user_id = $1),
		(SELECT count(*) FROM events WHERE user_id = $1 AND ts > 1000 * extract(epoch FROM now() - interval '15 minutes')),
		(SELECT coalesce(sum(events), 0)::bigint FROM sessions WHERE user_id = $1)`, r.ID)
	if err != nil {
		return standingEvents{}, err
	}
	return found[0], nil
}

// collect is rows for who cannot end the test.
func collect[T any](ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) ([]T, error) {
	found, err := pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByPos[T])
}
