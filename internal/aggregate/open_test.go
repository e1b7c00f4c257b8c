package aggregate

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/store"
)

// What is found from the seconds of a day is what a finalize finds from all events: whatever lies before, however the runs
// meet the day's edge, the clock and deleted stretches.
func TestOpenRunsAreThoseOfAFinalize(t *testing.T) {
	t.Parallel()
	const now = int64(1_800_000_000)
	near := func(at int64) *rapid.Generator[int64] {
		return rapid.Map(rapid.Int64Range(-2000, 2000), func(d int64) int64 { return at + d })
	}
	rapid.Check(t, func(t *rapid.T) {
		// A chain of events that the clock's edges meet anywhere.
		at := rapid.OneOf(near(now-openLimit), near(now-2*openLimit), near(now-activity.IdleSeconds)).Draw(t, "start")
		var all hotSet
		gaps := rapid.OneOf(
			rapid.SliceOfN(rapid.SampledFrom([]int64{0, 1, 300, 899, 900, 901, 5000}), 0, 300),
			rapid.SliceOfN(rapid.SampledFrom([]int64{899, 900}), 97, 100), // from one edge to the other
		).Draw(t, "gaps")
		for i, gap := range append([]int64{0}, gaps...) {
			if at += gap; at > now+300 {
				break
			}
			all.events = append(all.events, activity.Event{ID: uuid.New(), TS: at*1000 + int64(i%1000)})
			all.seqs = append(all.seqs, int64(i))
		}
		var deleted []stretch
		for range rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "deleted") {
			first := rapid.OneOf(near(now-openLimit), near(now-activity.IdleSeconds)).Draw(t, "first")
			deleted = append(deleted, stretch{first, first + rapid.Int64Range(0, 1500).Draw(t, "length")})
		}
		want := all.ended(now, deleted).open

		var seconds []int64
		for i := range all.events {
			if s := all.events[i].Second(); s >= now-openLimit-activity.IdleSeconds {
				seconds = append(seconds, s)
			}
		}
		slices.Sort(seconds)
		got := openRuns(slices.Compact(seconds), now, deleted)
		require.Equal(t, want, got)
		require.LessOrEqual(t, len(got), 2)
	})
}

// A user with more events than may be finalized on the spot: what is open goes, to the event, and what has ended stays,
// is still due, and becomes the sessions that it would have become.
func TestDropOpenOfAHeavyUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.count(`SELECT floor(extract(epoch FROM statement_timestamp()))::bigint`)
	ended, openFirst := now-50_000, now-20_000
	user, other := f.user("UTC", activity.ModeFull), f.user("UTC", activity.ModeFull)
	// Two open runs, one ahead of the clock; each second of the first has several events.
	f.exec(`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, file)
		SELECT u, gen_random_uuid(), ($2::bigint + i % 19500) * 1000 + 999, 'go', 1, 0, 'secret' FROM generate_series(0, 59999) i,
		unnest($1::uuid[]) u`, []uuid.UUID{user, other}, openFirst)
	ahead := at(now+450, "go", 1)
	a, b := at(ended, "go", 1), at(ended+900, "c", 2)
	long := at(now-openLimit-500_000, "go", 3)
	for _, u := range []uuid.UUID{user, other} {
		f.upload(u, long, a, b, ahead)
		// A mark from before the ended run to the end of the open one, as the scanner leaves when what lay between is deleted.
		f.exec(`DELETE FROM hot_runs WHERE user_id = $1 AND first_s BETWEEN $2 AND $3`, u, ended, ended+900)
		f.exec(`INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, $2, $3), ($1, $4, $3)`, u, ended-10, openFirst+19_499, openFirst)
	}
	before := f.count(`SELECT count(*) FROM events WHERE user_id = $1`, other)

	require.NoError(t, store.WithTx(t.Context(), f.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := f.agg.finalizer.FinalizeTx(ctx, tx, user, nil)
		require.ErrorIs(t, err, errHeavy, "the trial must be about a heavy user")
		return DropOpenTx(ctx, tx, user)
	}))
	require.EqualValues(t, 3, f.count(`SELECT count(*) FROM events WHERE user_id = $1`, user))
	require.Zero(t, f.count(`SELECT count(*) FROM events e WHERE user_id = $1 AND NOT EXISTS
		(SELECT 1 FROM hot_runs h WHERE h.user_id = e.user_id AND e.ts / 1000 BETWEEN h.first_s AND h.last_s)`, user), "each has a mark")
	require.Zero(t, f.count(`SELECT count(*) FROM hot_runs WHERE user_id = $1 AND last_s >= $2`, user, openFirst))
	require.Equal(t, before, f.count(`SELECT count(*) FROM events WHERE user_id = $1`, other))
	require.EqualValues(t, 4, f.count(`SELECT count(*) FROM hot_runs WHERE user_id = $1`, other))

	f.exec(`DELETE FROM events WHERE user_id = $1`, other) // not what this is about
	f.cycle(now)
	f.requireStands(user, utc, long, a, b)
	require.Zero(t, f.count(`SELECT count(*) FROM events`))
}

// The cost follows the seconds of a day, not the events.
func TestDropOpenReadsADay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	now := f.count(`SELECT floor(extract(epoch FROM statement_timestamp()))::bigint`)
	// Open for longer than a day: a finalize takes it as it stands, so it is not dropped.
	f.exec(`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines)
		SELECT $1, gen_random_uuid(), ($2::bigint - i * 600) * 1000, 'go', 1, 0 FROM generate_series(0, 1000) i`, user, now)
	f.exec(`INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, $2, $3)`, user, now-600_000, now)
	require.NoError(t, store.WithTx(t.Context(), f.pool, func(ctx context.Context, tx pgx.Tx) error {
		return DropOpenTx(ctx, tx, user)
	}))
	require.EqualValues(t, 1001, f.count(`SELECT count(*) FROM events`))
	require.EqualValues(t, 1, f.count(`SELECT count(*) FROM hot_runs`))
	later := time.Unix(now, 0)
	res, err := f.agg.finalizer.Finalize(t.Context(), f.pool, user, &later)
	require.NoError(t, err)
	require.Equal(t, 1001, res.Events, "the aggregator takes it as well")

	require.NoError(t, store.WithTx(t.Context(), f.pool, func(ctx context.Context, tx pgx.Tx) error {
		return DropOpenTx(ctx, tx, uuid.New()) // nobody
	}))
}

func TestFailureReasonHoldsNoData(t *testing.T) {
	t.Parallel()
	require.Equal(t, "internal", FailureReason(fmt.Errorf("read secret.go")))
	require.Equal(t, errHeavy.Error(), FailureReason(fmt.Errorf("read events: %w", errHeavy)))
}
