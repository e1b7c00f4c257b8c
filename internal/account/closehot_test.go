package account

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// requireLeft checks that a user with 100 events that have ended, from mustStoreEvents(80_000, 100, 1), is off with nothing
// private and nothing open left, and that the aggregator makes the session of them that it would have made.
func (b *bundle) requireLeft(t *testing.T, user uuid.UUID) {
	t.Helper()
	require.Equal(t, activity.ModeOff, b.stored(t, user).Mode)
	require.Zero(t, b.secrets(t, user))
	require.Equal(t, 100, b.mustCount(t, `SELECT count(*) FROM events`), "what has ended stays, and nothing of the open run")
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM sessions`))
	finalizer := aggregate.NewFinalizer(outbox.Enqueue)
	_, err := aggregate.New(b.db, finalizer, clock.System{}, testenv.Logger(t), 1).Cycle(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM sessions WHERE events = 100 AND ended_at - started_at = interval '159 s'`))
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM session_details`)+b.mustCount(t, `SELECT count(*) FROM archive_details`))
	require.Zero(t, b.hot(t, user))
}

// A finalize that takes too long costs its own time and nothing else, be it one long statement or many short ones.
func TestOffWhenFinalizeTakesTooLong(t *testing.T) {
	t.Parallel()
	many := func(ctx context.Context, fn func() error) error {
		for range 1000 { // far longer than it may take
			if err := fn(); err != nil {
				return err
			}
		}
		return errors.New("it was never told to stop")
	}
	const short = `SELECT pg_sleep(0.02)::text`
	ways := map[string]func(ctx context.Context, tx pgx.Tx) error{
		"one statement": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(100)`)
			return err
		},
		"many statements": func(ctx context.Context, tx pgx.Tx) error {
			return many(ctx, func() error { _, err := tx.Exec(ctx, short); return err })
		},
		"many rows": func(ctx context.Context, tx pgx.Tx) error {
			return many(ctx, func() error { var s string; return tx.QueryRow(ctx, short).Scan(&s) })
		},
		"many queries": func(ctx context.Context, tx pgx.Tx) error {
			return many(ctx, func() error {
				rows, err := tx.Query(ctx, short)
				if err != nil {
					return err
				}
				rows.Close()
				return rows.Err()
			})
		},
		"many batches": func(ctx context.Context, tx pgx.Tx) error {
			return many(ctx, func() error {
				batch := &pgx.Batch{}
				batch.Queue(short)
				return tx.SendBatch(ctx, batch).Close()
			})
		},
	}
	for name, finalize := range ways {
		for _, from := range []activity.Mode{activity.ModeFull, activity.ModeSummary} {
			t.Run(name+" from "+string(from), func(t *testing.T) {
				t.Parallel()
				b := setup(t, Config{FinalizeTimeout: 100 * time.Millisecond, Timeout: time.Minute})
				b.finalize = func(ctx context.Context, tx pgx.Tx) error {
					if _, err := tx.Exec(ctx, `DELETE FROM events`); err != nil {
						return err
					}
					return finalize(ctx, tx)
				}
				user := b.mustUser(t, from)
				b.mustStoreEvents(t, user, 80_000, 100, 1) // ended
				b.mustStoreEvents(t, user, 500, 400, 1)    // open
				b.mustForgetPrivate(t, user, from)
				require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeOff))
				b.requireLeft(t, user)
			})
		}
	}
}

// mustForgetPrivate makes of what was stored of a user what is stored in a mode.
func (b *bundle) mustForgetPrivate(t *testing.T, user uuid.UUID, mode activity.Mode) {
	t.Helper()
	if mode != activity.ModeFull {
		b.mustExec(t, `UPDATE events SET file = NULL, project = NULL, key_freq = NULL WHERE user_id = $1`, user)
	}
}

// However long finalizing may take by itself, half of the time that there is stays for leaving without.
func TestFinalizeLeavesTimeToLeave(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{FinalizeTimeout: time.Minute, Timeout: 4 * time.Second})
	b.finalize = func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT pg_sleep(100)`)
		return err
	}
	user := b.mustUser(t, activity.ModeFull)
	b.mustStoreEvents(t, user, 80_000, 100, 1)
	require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeOff))
	b.requireLeft(t, user)
}

// The bound on finalizing holds for nothing else.
func TestFinalizeTimeoutEndsWithFinalizing(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("data that fails")} {
		b := setup(t, Config{})
		var within, after string
		read := func(ctx context.Context, tx pgx.Tx, into *string) error {
			return tx.QueryRow(ctx, `SELECT current_setting('statement_timeout')`).Scan(into)
		}
		b.finalize = func(ctx context.Context, tx pgx.Tx) error { return errors.Join(read(ctx, tx, &within), failure) }
		b.deps.EnqueueFunc = func(ctx context.Context, tx pgx.Tx, _ uuid.UUID, _ int64) error { return read(ctx, tx, &after) }
		b.mustExec(t, fmt.Sprintf(`ALTER DATABASE %s SET statement_timeout = '70s'`,
			pgx.Identifier{b.db.Config().ConnConfig.Database}.Sanitize()))
		b.db.Reset()
		require.NoError(t, b.ChangeMode(t.Context(), b.mustUser(t, activity.ModeFull), activity.ModeOff))
		require.Equal(t, "1s", within)
		require.Equal(t, "70s", after)
	}
}

// How long the paths of a user are, each its own, and how many, keeps nobody from leaving, whatever of it can be made into
// sessions on the spot. The times are those that requests have.
func TestLeavingWithLongPaths(t *testing.T) {
	t.Parallel()
	const few, many = 9_900, 49_000 // just under what a request finalizes, and far above
	for events, modes := range map[int][]activity.Mode{few: {activity.ModeOff}, many: {activity.ModeSummary, activity.ModeOff}} {
		for _, to := range modes {
			t.Run(fmt.Sprintf("%d to %s", events, to), func(t *testing.T) {
				b := setup(t, Config{}) // one after the other: each has the machine for itself
				b.finalizer()
				user := b.mustUser(t, activity.ModeFull)
				b.mustStoreEvents(t, user, 80_000, events, 1)
				b.mustStoreEvents(t, user, 60, 50, 1)
				b.mustExec(t, `UPDATE events SET file = p || seq FROM (SELECT 'secret' || string_agg(md5(n::text), '') AS p FROM generate_series(1, 125) n) long`)
				require.NoError(t, b.ChangeMode(t.Context(), user, to))
				require.Zero(t, b.secrets(t, user))
				_, err := aggregate.New(b.db, b.finalizer(), clock.System{}, testenv.Logger(t), 1).Cycle(t.Context(), nil)
				require.NoError(t, err)
				require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM sessions WHERE events = $1`, events))
				require.Zero(t, b.mustCount(t, `SELECT count(*) FROM session_details`)+b.mustCount(t, `SELECT count(*) FROM archive_details`))
				left := map[activity.Mode]int{activity.ModeSummary: 50, activity.ModeOff: 0}
				require.Equal(t, left[to], b.mustCount(t, `SELECT count(*) FROM events`))
			})
		}
	}
}

// Whoever has too many events for a request is told from their number, before a row of them is read.
func TestHeavyIsDecidedWithoutReading(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	finalizer := b.finalizer()
	user := b.mustUser(t, activity.ModeFull)
	b.mustStoreEvents(t, user, 80_000, 10_001, 1)
	tx, err := b.db.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = finalizer.FinalizeTx(t.Context(), unread{tx}, user, nil)
	require.Equal(t, "more events than may be finalized at once", aggregate.FailureReason(err))
	_, err = tx.Exec(t.Context(), `DELETE FROM events WHERE seq = (SELECT min(seq) FROM events)`)
	require.NoError(t, err)
	_, err = finalizer.FinalizeTx(t.Context(), unread{tx}, user, nil)
	require.ErrorIs(t, err, errRead, "one less is read")
}

var errRead = errors.New("events were read")

// unread refuses to read events.
type unread struct{ pgx.Tx }

func (u unread) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if sql == dbsqlc.FinalizeGetEvents {
		return nil, errRead
	}
	return u.Tx.Query(ctx, sql, args...)
}
