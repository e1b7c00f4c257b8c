package writebehind

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

// ledger is where deltas end up: Postgres, as far as Once is concerned, and a map.
type ledger struct {
	pool *pgxpool.Pool

	mu      sync.Mutex
	sums    map[uuid.UUID]int64
	flushes []Flush
	before  func(Flush) error // called before a flush is applied
	after   func(Flush) error // called once it is
}

func (l *ledger) apply(ctx context.Context, f Flush) error {
	l.mu.Lock()
	before, after := l.before, l.after
	l.mu.Unlock()
	if before != nil {
		if err := before(f); err != nil {
			return err
		}
	}
	err := store.WithTx(ctx, l.pool, func(ctx context.Context, tx pgx.Tx) error {
		first, err := Once(ctx, tx, f.ID, f.TakenAt)
		if err != nil || !first {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.flushes = append(l.flushes, f)
		for i, r := range f.Records {
			l.sums[r] += f.Deltas[i]
		}
		return nil
	})
	if err == nil && after != nil {
		return after(f)
	}
	return err
}

func (l *ledger) sum(r uuid.UUID) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sums[r]
}

func (l *ledger) hooks(before, after func(Flush) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

type debounceBundle struct {
	*ledger
	rdb redis.UniversalClient
	url string
}

func setupDebounce(t *testing.T, redisURL string) debounceBundle {
	t.Helper()
	rdb, err := redisconn.New(redisURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	return debounceBundle{&ledger{pool: testenv.Postgres(t), sums: map[uuid.UUID]int64{}}, rdb, redisURL}
}

// process is the Deltas of one process.
func (b debounceBundle) process(t *testing.T, cfg DebounceConfig) *Deltas {
	t.Helper()
	return NewDeltas("test", cfg, DeltasDeps{
		DB: b.pool, Redis: b.rdb, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), ApplyFunc: b.apply,
	})
}

func (b debounceBundle) requireEmpty(t *testing.T) {
	t.Helper()
	keys, err := b.rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, keys)
}

// runUntilEnd runs a process until the returned function is called.
func runUntilEnd(t *testing.T, r interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

const soon, patience = 20 * time.Millisecond, 30 * time.Second

// The first change arms, a burst joins it, and the next burst arms anew.
func TestDebounceMakesOneFlushOfABurst(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	d := b.process(t, DebounceConfig{Delay: time.Second})
	r := uuid.New()
	stop := runUntilEnd(t, d)
	for burst := range int64(2) {
		for range 200 {
			require.NoError(t, d.Add(t.Context(), r, 1))
		}
		require.Eventually(t, func() bool { return b.sum(r) == 200*(burst+1) }, patience, soon)
	}
	stop()
	require.Len(t, b.flushes, 2)
	b.requireEmpty(t)
}

func TestDebounceKeepsWhatFails(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	d := b.process(t, DebounceConfig{Delay: soon})
	r, failures := uuid.New(), 0
	b.hooks(func(Flush) error {
		if failures++; failures < 4 {
			_ = d.Add(t.Context(), r, 1) // goes on meanwhile
			return errors.New("planted")
		}
		return nil
	}, nil)
	require.NoError(t, d.Add(t.Context(), r, 10))
	stop := runUntilEnd(t, d)
	require.Eventually(t, func() bool { return b.sum(r) == 13 }, patience, soon)
	stop()
	b.requireEmpty(t)
}

// Whoever dies after a flush was applied, and before it was forgotten, leaves it for another to find that it is done.
func TestDebounceDeathAfterApply(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	r := uuid.New()
	first := b.process(t, DebounceConfig{Delay: soon})
	b.hooks(nil, func(Flush) error { return errors.New("died") })
	require.NoError(t, first.Add(t.Context(), r, 5))
	require.ErrorContains(t, first.flush(t.Context(), []uuid.UUID{r}), "died")
	b.hooks(nil, nil)
	require.NoError(t, first.Add(t.Context(), r, 7))

	second := b.process(t, DebounceConfig{Delay: soon, Grace: time.Millisecond, SweepEvery: soon})
	stop := runUntilEnd(t, second)
	require.Eventually(t, func() bool { return b.sum(r) >= 12 }, patience, soon)
	stop()
	require.Equal(t, int64(12), b.sum(r))
	require.Len(t, b.flushes, 2)
}

// A flush is finished whole, by whoever meets one of its records; the one who took it and wakes late changes nothing.
func TestDebounceLateWaker(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	records := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	late, other := b.process(t, DebounceConfig{}), b.process(t, DebounceConfig{Delay: soon})
	for i, r := range records {
		require.NoError(t, late.Add(t.Context(), r, int64(i+1)))
	}
	asleep, wake := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.hooks(func(Flush) error {
		stopped := false
		once.Do(func() { stopped = true })
		if stopped {
			close(asleep)
			<-wake
		}
		return nil
	}, nil)
	woken := make(chan error, 1)
	go func() { woken <- late.flush(t.Context(), records) }()
	<-asleep
	require.NoError(t, other.Add(t.Context(), records[1], 10))
	require.NoError(t, other.flush(t.Context(), records[1:2]))
	require.Equal(t, []int64{1, 2, 3}, []int64{b.sum(records[0]), b.sum(records[1]), b.sum(records[2])}, "the old flush first, and all of it")
	require.NoError(t, other.flush(t.Context(), records[1:2]))
	require.Equal(t, int64(12), b.sum(records[1]))
	require.NoError(t, other.Add(t.Context(), records[1], 100))
	b.hooks(func(Flush) error { return errors.New("away") }, nil)
	require.Error(t, other.flush(t.Context(), records[1:2]))
	close(wake)
	require.NoError(t, <-woken)
	require.Equal(t, int64(1), b.rdb.HLen(t.Context(), "{wb:test:0}:processing").Val(), "who wakes late does not forget another's flush")
	b.hooks(nil, nil)
	require.NoError(t, other.flush(t.Context(), records[1:2]))
	require.Equal(t, []int64{1, 112, 3}, []int64{b.sum(records[0]), b.sum(records[1]), b.sum(records[2])})
}

// The next change of a record takes it over at once from a flusher that is dead; a sweep does without one.
func TestDebounceTakesOver(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	dead := b.process(t, DebounceConfig{Delay: time.Millisecond, Grace: time.Millisecond})
	changed, quiet := uuid.New(), uuid.New()
	require.NoError(t, dead.Add(t.Context(), changed, 1))
	require.NoError(t, dead.Add(t.Context(), quiet, 1))
	d := b.process(t, DebounceConfig{Delay: soon, Grace: time.Millisecond, SweepEvery: time.Hour})
	require.Eventually(t, func() bool {
		require.NoError(t, d.Add(t.Context(), changed, 1))
		return d.waits(changed)
	}, patience, time.Millisecond)
	require.False(t, d.waits(quiet))
	stop := runUntilEnd(t, d) // which sweeps once
	require.Eventually(t, func() bool { return b.sum(quiet) == 1 && b.sum(changed) >= 2 }, patience, soon)
	stop()
	b.requireEmpty(t)
}

// A flush that nobody applied for more than a day is counted under another id; one that was applied is not counted again.
func TestDebounceLapsedFlush(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	d := b.process(t, DebounceConfig{})
	old := clock.System{}.Now().Add(-26 * time.Hour)
	lost, done, young := uuid.New(), uuid.New(), uuid.New()
	stand := func(r, flush uuid.UUID, at time.Time) {
		value := flush.String() + " " + itoaMS(at) + " 9"
		require.NoError(t, b.rdb.HSet(t.Context(), d.keys[0].processing, r.String(), value).Err())
	}
	applied := uuid.New()
	_, err := b.pool.Exec(t.Context(), `INSERT INTO flushes (id, source) VALUES ($1, $2)`, applied, debounceSource)
	require.NoError(t, err)
	stand(lost, uuid.New(), old)
	stand(done, applied, old)
	require.NoError(t, d.sweep(t.Context()))
	stand(young, uuid.New(), old.Add(90*time.Minute)) // too old to be applied, and perhaps being applied
	require.ErrorIs(t, d.sweep(t.Context()), errTooOld)
	require.NoError(t, d.flushStuckless(t.Context(), lost, done))
	require.Equal(t, []int64{9, 0, 0}, []int64{b.sum(lost), b.sum(done), b.sum(young)})
}

// flushStuckless is a process's flush that has no flush of its own to finish first.
func (d *Deltas) flushStuckless(ctx context.Context, records ...uuid.UUID) error {
	d.stuck[0] = nil
	return d.flush(ctx, records)
}

func itoaMS(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func TestDebounceForgetsOldFlushes(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	_, err := b.pool.Exec(t.Context(), `INSERT INTO flushes (id, source, applied_at) VALUES
		(gen_random_uuid(), 'debounce', now() - interval '8 days'), (gen_random_uuid(), 'other', now() - interval '8 days'), (gen_random_uuid(), 'debounce', now())`)
	require.NoError(t, err)
	require.NoError(t, b.process(t, DebounceConfig{}).sweep(t.Context()))
	var n int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM flushes`).Scan(&n))
	require.Equal(t, 2, n, "the old one of ours is gone")
}

// Two processes, one record, and everything added is counted exactly.
func TestDebounceManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	records := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	cfg := DebounceConfig{Delay: time.Millisecond, Grace: 2 * time.Millisecond, SweepEvery: 5 * time.Millisecond, Batch: 2}
	var adding sync.WaitGroup
	for range 2 {
		d := b.process(t, cfg)
		defer runUntilEnd(t, d)()
		for range 4 {
			adding.Go(func() {
				for i := range 150 {
					if err := d.Add(t.Context(), records[i%3], 1); err != nil {
						t.Errorf("add: %v", err)
					}
				}
			})
		}
	}
	adding.Wait()
	require.Eventually(t, func() bool { return b.sum(records[0])+b.sum(records[1])+b.sum(records[2]) >= 1200 }, patience, soon)
	require.Equal(t, []int64{400, 400, 400}, []int64{b.sum(records[0]), b.sum(records[1]), b.sum(records[2])})
}

// The memory of a process is bounded; what has no room there waits in Redis.
func TestDebounceQueueIsBounded(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	d := b.process(t, DebounceConfig{Queue: 3, Delay: time.Millisecond, Grace: time.Millisecond, SweepEvery: soon})
	records := make([]uuid.UUID, 10)
	for i := range records {
		records[i] = uuid.New()
		require.NoError(t, d.Add(t.Context(), records[i], 1))
	}
	require.Len(t, d.queue, 3)
	stop := runUntilEnd(t, d)
	for _, r := range records {
		require.Eventually(t, func() bool { return b.sum(r) == 1 }, patience, soon)
	}
	stop()
	b.requireEmpty(t)
}

// With no traffic a process sends Redis next to nothing.
func TestDebounceIdleCommands(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.OwnRedis(t).URL())
	deltas := b.process(t, DebounceConfig{})
	arms := NewArms("test-arms", DebounceConfig{}, ArmsDeps{
		Redis: b.rdb, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler),
		FlushFunc: func(context.Context, []uuid.UUID) error { return nil },
		StaleFunc: func(context.Context, int) ([]uuid.UUID, error) { return nil, nil },
	})
	require.NoError(t, b.rdb.Ping(t.Context()).Err())
	require.NoError(t, b.rdb.ConfigResetStat(t.Context()).Err())
	for range 12 { // the sweeps of an hour
		require.NoError(t, deltas.sweep(t.Context()))
		require.NoError(t, arms.sweep(t.Context()))
	}
	stats, err := b.rdb.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	require.Contains(t, stats, "cmdstat_exists:calls=12,")
	for line := range strings.Lines(stats) {
		known := line == "# Commandstats\r\n" || strings.HasPrefix(line, "cmdstat_exists") || strings.HasPrefix(line, "cmdstat_config") ||
			strings.HasPrefix(line, "cmdstat_hello") || strings.HasPrefix(line, "cmdstat_client")
		require.True(t, known, "beside what a new connection says: %s", line)
	}
}

// What is in memory when the process is told to stop is flushed first.
func TestDebounceFlushesBeforeItEnds(t *testing.T) {
	t.Parallel()
	b := setupDebounce(t, testenv.RedisURL(t))
	d := b.process(t, DebounceConfig{})
	r := uuid.New()
	require.NoError(t, d.Add(t.Context(), r, 1))
	runUntilEnd(t, d)()
	require.Equal(t, int64(1), b.sum(r))
	b.requireEmpty(t)
}
