package writebehind

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
)

func (b *bundle) on(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	rdb, err := redisconn.New(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	b.Source = NewSource(rdb, b.keys)
	return rdb
}

// TestFullRedisIsDrained of a batch that somebody took, and of what gathered after it.
func TestFullRedisIsDrained(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rdb := b.on(t, testenv.OwnRedis(t).URL())
	require.NoError(t, rdb.HIncrBy(t.Context(), b.keys.Buf, "a", 5).Err())
	b.mustTake(t) // a flusher took it and could not apply it
	require.NoError(t, rdb.HIncrBy(t.Context(), b.keys.Buf, "a", 2).Err())
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, rdb.HIncrBy(t.Context(), b.keys.Buf, "a", 1).Err(), "OOM")
	c, err := b.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, c.Batches)
	require.EqualValues(t, 7, b.counts(t)["a"])
}

// before calls do before the n-th call of a script.
type before struct {
	script string // its hash
	at     int64
	do     func()
	n      atomic.Int64
}

func (h *before) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[1] == h.script && h.n.Add(1) == h.at {
			h.do()
		}
		return next(ctx, cmd)
	}
}
func (h *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestRestartAmidRead: a Redis that comes back with all it had walks a batch in another order.
func TestRestartAmidRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := testenv.OwnDurableRedis(t)
	rdb := b.on(t, server.URL())
	b.Apply = func(ctx context.Context, tx pgx.Tx, entries map[string]string) (int64, error) {
		_, err := tx.Exec(ctx, `INSERT INTO counts VALUES ('n', $1)`, int64(len(entries)))
		return 1, err
	}
	const n = 20_000
	pipe := rdb.Pipeline()
	for i := range n {
		pipe.HIncrBy(t.Context(), b.keys.Buf, "target"+strconv.Itoa(i), 1)
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	hook := &before{script: readScript.Hash(), at: 5, do: func() { require.NoError(t, server.Restart(t.Context())) }}
	rdb.AddHook(hook)
	_, err = b.Flush(t.Context())
	require.NoError(t, err)
	require.Greater(t, hook.n.Load(), hook.at)
	require.EqualValues(t, n, b.counts(t)["n"])
}

// cutter passes on to Redis, and cuts one connection instead of passing on the answer to a script.
type cutter struct {
	target     string
	armed, cut atomic.Bool
}

// through returns a URL that leads through the cutter.
func (c *cutter) through(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	c.target, u.Host = u.Host, l.Addr().String()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(in)
		}
	}()
	return u.String()
}

func (c *cutter) serve(in net.Conn) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	var lose atomic.Bool
	go func() {
		_ = pass(in, out, func(sent []byte) bool {
			if bytes.Contains(bytes.ToLower(sent), []byte("evalsha")) && c.armed.CompareAndSwap(true, false) {
				lose.Store(true)
			}
			return true
		})
		_ = out.Close()
	}()
	_ = pass(out, in, func([]byte) bool { return !lose.Load() })
	c.cut.Store(c.cut.Load() || lose.Load())
}

// pass copies until an error, or until ok says no.
func pass(from, to net.Conn, ok func([]byte) bool) error {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return err
		}
		if !ok(buf[:n]) {
			return errors.New("cut")
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// TestLostAnswerIsNotAskedForAgain: a share is not counted twice, and nobody is left to flush a record by nobody.
func TestLostAnswerIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	cut := &cutter{}
	rdb, err := redisconn.New(cut.through(t, testenv.RedisURL(t)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	cfg := DebounceConfig{CallTimeout: 10 * time.Second}
	d := NewDeltas("shares", cfg, DeltasDeps{Redis: rdb, Clock: clock.System{}, Log: testenv.Logger(t)})
	record := uuid.New()
	require.NoError(t, d.Add(t.Context(), record, 1))
	cut.armed.Store(true)
	require.Error(t, d.Add(t.Context(), record, 1), "it is not known whether it was counted")
	require.True(t, cut.cut.Load())
	require.Equal(t, "2", rdb.HGet(t.Context(), d.keys[0].deltas, record.String()).Val())

	a := NewArms("engaged", cfg, ArmsDeps{Redis: rdb, Clock: clock.System{}, Log: testenv.Logger(t)})
	a.Arm(t.Context(), uuid.New())
	cut.armed.Store(true)
	a.Arm(t.Context(), record)
	require.NoError(t, rdb.ZScore(t.Context(), a.keys[0].due, record.String()).Err())
	require.True(t, a.waits(record), "in this process's memory")
}

// TestArmsThatNobodyTookOutEnd when others are armed.
func TestArmsThatNobodyTookOutEnd(t *testing.T) {
	t.Parallel()
	rdb := testenv.Redis(t)
	a := NewArms("engaged", DebounceConfig{}, ArmsDeps{Redis: rdb, Clock: clock.System{}, Log: testenv.Logger(t)})
	old, late, fresh := uuid.New(), uuid.New(), uuid.New()
	now := rdb.Time(t.Context()).Val()
	for id, ago := range map[uuid.UUID]time.Duration{old: 2 * time.Hour, late: time.Minute} {
		at := redis.Z{Score: float64(now.Add(-ago).UnixMilli()), Member: id.String()}
		require.NoError(t, rdb.ZAdd(t.Context(), a.keys[0].due, at).Err())
	}
	a.Arm(t.Context(), fresh)
	left := rdb.ZRange(t.Context(), a.keys[0].due, 0, -1).Val()
	require.Equal(t, strings.Join([]string{late.String(), fresh.String()}, " "), strings.Join(left, " "))
}
