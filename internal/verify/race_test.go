package verify

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/store"
)

// between is a hook of a Redis client that does something once after the places were scanned, and once before the places
// of suspects are read.
type between struct {
	scanned, reading func()
	didScan, didRead atomic.Bool
}

func (h *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "zscan" && h.didScan.CompareAndSwap(false, true) {
			h.scanned()
		}
		return err
	}
}

func (h *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "zmscore" && h.didRead.CompareAndSwap(false, true) {
			h.reading()
		}
		return next(ctx, cmds)
	}
}

// grow does what a finalize and a publisher do: another total, a newer version, and all boards know it.
func (f *fixture) grow(id uuid.UUID) {
	f.t.Helper()
	require.NoError(f.t, store.WithTx(f.ctx, f.pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE totals SET seconds = seconds + 10 WHERE user_id = $1`, id); err != nil {
			return err
		}
		var version int64
		if err := tx.QueryRow(ctx, `UPDATE users SET version = version + 1 WHERE id = $1 RETURNING version`, id).Scan(&version); err != nil {
			return err
		}
		return outbox.Enqueue(ctx, tx, id, version)
	}))
	require.NoError(f.t, f.checker.Publisher.PublishUsers(f.ctx, &noon, id))
}

// audit checks one board through a client of its own with a hook.
func (f *fixture) audit(board leaderboard.Board, h *between) (leaderboard.Audited, []leaderboard.Misplaced) {
	f.t.Helper()
	rdb := redis.NewClient(f.rdb.(*redis.Client).Options())
	f.t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(h)
	var found []leaderboard.Misplaced
	audited, err := leaderboard.NewVerifier(f.pool, rdb, testLangs).Verify(f.ctx, board, leaderboard.Audit{
		Page: 100, Pause: func(context.Context) error { return nil },
		Found: func(_ context.Context, m []leaderboard.Misplaced) error {
			found = append(found, m...)
			return nil
		},
	})
	require.NoError(f.t, err)
	require.True(f.t, h.didScan.Load() && h.didRead.Load())
	return audited, found
}

// TestWhoMovesBetweenTheReadsIsNoDrift: a user grows after the scan, and again between the reads of the second look.
func TestWhoMovesBetweenTheReadsIsNoDrift(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	f.t = t
	grow := func() { f.grow(userID(7)) }
	audited, found := f.audit(boardOf(calendar.PeriodDay, ""), &between{scanned: grow, reading: grow})
	require.Empty(t, found)
	require.False(t, audited.Unbuilt)
}

// TestABoardThatGoesBetweenTheReadsIsNoDrift: its places are gone, but then so is its mark.
func TestABoardThatGoesBetweenTheReadsIsNoDrift(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	f.t = t
	audited, found := f.audit(boardOf(calendar.PeriodDay, ""), &between{
		scanned: func() { f.grow(userID(7)) },
		reading: func() { require.NoError(t, f.rdb.FlushDB(f.ctx).Err()) },
	})
	require.Empty(t, found)
	require.True(t, audited.Unbuilt)
}
