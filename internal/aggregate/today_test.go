package aggregate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
)

// dayOf is what is finalized of a user's day.
func (f *fixture) dayOf(user uuid.UUID, day fmt.Stringer) int64 {
	f.t.Helper()
	return f.count(`SELECT coalesce(sum(seconds), 0) FROM totals WHERE user_id = $1 AND period = 'day' AND lang = '' AND starts_on = $2::text::date`,
		user, day.String())
}

// Whatever is hot, late, sent again, deleted or of another zone: what today shows is what finalizing makes of the day.
func TestTodayIsWhatFinalizeMakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := rand.New(rand.NewPCG(7, 11))
	for n := range 60 {
		f.todayTrial(r, n)
	}
}

func (f *fixture) todayTrial(r *rand.Rand, n int) {
	t := f.t
	t.Helper()
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	zonesOfTrial := []string{"UTC", "America/Sao_Paulo", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu", "Asia/Beirut"}
	user := f.user(pick(zonesOfTrial...), activity.ModeFull)
	for range r.IntN(3) {
		f.exec(`INSERT INTO user_zones VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, user, noon+r.Int64N(172_800)-86_400, pick(zonesOfTrial...))
	}
	var sent []activity.Event
	event := func() activity.Event {
		if len(sent) > 0 && r.IntN(4) == 0 { // sent again, perhaps with something else in it
			e := sent[r.IntN(len(sent))]
			e.Keystrokes += r.Int32N(2)
			return e
		}
		e := at(noon+r.Int64N(172_800)-86_400, pick("go", "c"), r.Int32N(3))
		if len(sent) > 0 && r.IntN(3) > 0 { // beside another one
			e.TS = sent[r.IntN(len(sent))].TS + []int64{-901, -900, -450, 1, 60, 899, 900, 901}[r.IntN(8)]*1000
		}
		sent = append(sent, e)
		return e
	}
	now := time.Unix(noon, 0)
	reader := NewTodayReader(f.pool, clock.NewManual(now))
	for step := range 6 {
		var batch []activity.Event
		for range 1 + r.IntN(12) {
			batch = append(batch, event())
		}
		f.upload(user, batch...)
		if r.IntN(3) == 0 {
			f.finalizeAt(user, time.Unix(noon+r.Int64N(86_400), 0))
		}
		if r.IntN(3) == 0 {
			f.deleteOne(user)
		}
		before := f.today(reader, user)
		require.Equal(t, f.dayOf(user, before.Day), before.Finalized)
		require.False(t, before.Partial)
		if r.IntN(2) == 0 {
			continue
		}
		f.finalizeAt(user, time.Unix(noon+30*86_400, 0))
		require.Equal(t, f.dayOf(user, before.Day), before.Seconds, "user %d, step %d", n, step)
		after := f.today(reader, user)
		require.Equal(t, before.Seconds, after.Seconds, "and then it stays")
		require.Equal(t, after.Seconds, after.Finalized)
	}
}

func (f *fixture) today(r *TodayReader, user uuid.UUID) Today {
	f.t.Helper()
	got, err := r.Today(f.t.Context(), user)
	require.NoError(f.t, err)
	return got
}

func (f *fixture) finalizeAt(user uuid.UUID, now time.Time) {
	f.t.Helper()
	res, err := NewFinalizer(enqueue).Finalize(f.t.Context(), f.pool, user, &now)
	require.NoError(f.t, err)
	require.False(f.t, res.Locked)
}

// deleteOne deletes the latest of the user's sessions, if there is one.
func (f *fixture) deleteOne(user uuid.UUID) {
	f.t.Helper()
	ids := query[struct{ ID uuid.UUID }](f, `SELECT id FROM sessions WHERE user_id = $1 ORDER BY started_at DESC LIMIT 1`, user)
	for _, s := range ids {
		require.NoError(f.t, store.WithTx(f.t.Context(), f.pool, func(ctx context.Context, tx pgx.Tx) error {
			return NewFinalizer(enqueue).DeleteSessionTx(ctx, tx, user, s.ID)
		}))
	}
}

func TestTodayMovesWhileSomebodyTypes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("Asia/Kathmandu", activity.ModeFull)
	c := clock.NewManual(time.Unix(noon, 0))
	r := NewTodayReader(f.pool, c)
	require.Zero(t, f.today(r, user).Seconds)
	for minute := range int64(3) {
		f.upload(user, at(noon+60*minute, "go", 1))
		require.Equal(t, 60*(minute+1), f.today(r, user).Seconds)
	}
	c.Advance(24 * time.Hour)
	tomorrow := f.today(r, user)
	require.Zero(t, tomorrow.Seconds, "of yesterday")
	require.Equal(t, "Asia/Kathmandu", tomorrow.Zone)

	_, err := r.Today(t.Context(), uuid.New())
	require.ErrorIs(t, err, ErrUnknownUser)
}

// Who has more hot events than are looked at is told less than what finalizing makes of them, never more.
func TestTodayOfTooManyEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	for _, s := range []int64{noon, noon + 60, noon + 5000, noon + 5060} {
		f.upload(user, at(s, "go", 1))
	}
	r := NewTodayReader(f.pool, clock.NewManual(time.Unix(noon, 0)))
	read := func(most int64) (got Today) {
		require.NoError(t, store.WithSnapshot(t.Context(), f.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
			got, err = r.read(ctx, tx, user, most)
			return err
		}))
		return got
	}
	whole, part := read(4), read(2)
	require.False(t, whole.Partial)
	require.EqualValues(t, 240, whole.Seconds)
	require.True(t, part.Partial)
	require.EqualValues(t, 120, part.Seconds, "of the newest")
	// The first events of a run can be among those that were not read, and its zone with them.
	f.exec(`INSERT INTO user_zones VALUES ($1, $2, 'Pacific/Kiritimati')`, user, noon+30)
	require.Zero(t, read(2).Seconds)
}
