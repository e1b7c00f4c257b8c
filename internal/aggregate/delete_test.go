package aggregate

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
)

func (f *fixture) sessionIDs(user uuid.UUID) (ids []uuid.UUID) {
	f.t.Helper()
	for _, r := range query[struct{ ID uuid.UUID }](f, `SELECT id FROM sessions WHERE user_id = $1 ORDER BY started_at`, user) {
		ids = append(ids, r.ID)
	}
	return ids
}

func (f *fixture) deleteSession(user, session uuid.UUID) error {
	f.t.Helper()
	return pgx.BeginFunc(f.t.Context(), f.pool, func(tx pgx.Tx) error {
		return f.agg.finalizer.DeleteSessionTx(f.t.Context(), tx, user, session)
	})
}

func TestDeletedSessionStaysDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	day := int64(86400)
	kept := []activity.Event{at(noon, "go", 1), at(noon+2*day, "c", 1)}
	gone := []activity.Event{at(noon+day, "go", 1), at(noon+day+600, "sql", 1)}
	f.upload(user, slices.Concat(kept, gone)...)
	f.cycle(noon + 10*day)
	version := f.count(`SELECT version FROM users WHERE id = $1`, user)

	require.NoError(t, f.deleteSession(user, f.sessionIDs(user)[1]))
	f.requireStands(user, utc, kept...)
	require.Equal(t, version+1, f.count(`SELECT version FROM outbox WHERE user_id = $1`, user))
	require.Zero(t, f.count(`SELECT count(*) FROM archives a WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = a.session_id)`))
	require.NotZero(t, f.count(`SELECT count(*) FROM totals WHERE seconds = 0`), "a zero total stays until its removal was published")

	// Sent again, and beside new events within its stretch and just outside.
	outside := at(noon+day+601, "go", 1)
	f.upload(user, slices.Concat(gone, []activity.Event{at(noon+day+300, "c", 1), outside})...)
	f.cycle(noon + 10*day)
	f.requireStands(user, utc, append(kept, outside)...)
	require.Zero(t, f.count(`SELECT count(*) FROM events`))
	require.ErrorIs(t, f.deleteSession(user, uuid.New()), ErrNoSession)
}

func TestDeleteTakesWhatIsHot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user, other := f.user("UTC", activity.ModeFull), f.user("UTC", activity.ModeFull)
	f.upload(user, at(noon, "go", 1), at(noon+600, "go", 1))
	f.cycle(noon + 5000)
	f.upload(user, at(noon+300, "c", 1), at(noon+601, "c", 1))
	f.upload(other, at(noon+300, "c", 1))
	require.NoError(t, f.deleteSession(user, f.sessionIDs(user)[0]))
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM events WHERE user_id = $1`, user))
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM events WHERE user_id = $1`, other))
	f.cycle(noon + 5000)
	f.requireStands(user, utc, at(noon+601, "c", 1))
}

func TestDeleteByAnAbsorbedID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	f.upload(user, at(noon, "go", 1), at(noon+1800, "go", 1))
	f.cycle(noon + 9000)
	ids := f.sessionIDs(user)
	f.upload(user, at(noon+900, "go", 1))
	f.cycle(noon + 9000)

	var absorbed *AbsorbedError
	require.ErrorAs(t, f.deleteSession(user, ids[1]), &absorbed)
	require.Equal(t, ids[0], absorbed.Heir)
	require.ErrorIs(t, f.deleteSession(f.user("UTC", activity.ModeFull), ids[0]), ErrNoSession, "nobody else's")
	require.NoError(t, f.deleteSession(user, ids[0]))
	require.ErrorIs(t, f.deleteSession(user, ids[1]), ErrNoSession, "the alias went with its heir")
	f.requireStands(user, utc)
}

func TestDeleteRepairsTheStreak(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	var events []activity.Event
	for day := range int64(5) {
		events = append(events, at(noon+day*86400, "go", 1))
	}
	f.upload(user, events...)
	f.cycle(noon + 10*86400)
	require.NoError(t, f.deleteSession(user, f.sessionIDs(user)[2]))
	f.requireStands(user, utc, slices.Delete(events, 2, 3)...)
}

// settle moves the horizon to where it would be in time.
func (f *fixture) settle(p *Pruner, ago time.Duration) int64 {
	f.t.Helper()
	f.exec(`UPDATE horizon SET advanced_at = now() - $1::interval`, ago.String())
	n, err := p.Prune(f.t.Context())
	require.NoError(f.t, err)
	return n
}

func TestPruneKeepsWhatALateEventCouldTouch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := NewPruner(f.pool, PruneConfig{DefaultAge: 24 * time.Hour, Slack: time.Hour, Margin: time.Hour})
	user := f.user("UTC", activity.ModeFull)
	now := f.count(`SELECT floor(extract(epoch FROM now()))::bigint`)
	horizon := now - 25*3600
	// The horizon moves on by the second while the test runs: a minute is left on either side of it.
	old, edge, young := at(horizon-900-60, "go", 1), at(horizon-900+60, "c", 1), at(now-7200, "go", 1)
	edge.TS += 2 * 3_600_000 // apart from old
	f.upload(user, old, edge, young)
	f.cycle(now + 2000)
	require.Equal(t, int64(3), f.count(`SELECT count(*) FROM archives`))

	require.Zero(t, f.settle(p, time.Minute), "the margin has not passed")
	require.Zero(t, f.count(`SELECT from_s FROM horizon`))
	require.Zero(t, f.settle(p, 2*time.Hour), "the horizon has moved, and must stand for the margin first")
	require.InDelta(t, horizon, f.count(`SELECT from_s FROM horizon`), 60)
	require.Equal(t, int64(1), f.settle(p, 2*time.Hour))
	require.Equal(t, int64(2), f.count(`SELECT count(*) FROM archives`))
	require.Equal(t, int64(3), f.count(`SELECT count(*) FROM sessions`), "the session itself stays for ever")

	// What is left is enough for every event that can still come.
	late := at(young.Second()+600, "go", 1)
	f.upload(user, late)
	require.Zero(t, f.cycle(now+2000).Failed)
	f.requireStands(user, utc, old, edge, young, late)
}

// An event that was accepted before the horizon came there, and is not finalized yet, keeps the archives of its user.
func TestPruneWaitsForHotEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := NewPruner(f.pool, PruneConfig{DefaultAge: 24 * time.Hour, Slack: time.Hour, Margin: time.Hour})
	user := f.user("UTC", activity.ModeFull)
	long := f.count(`SELECT floor(extract(epoch FROM now()))::bigint`) - 100*86400
	event := at(long, "go", 1)
	f.upload(user, event)
	f.cycle(long + 2000)
	late := at(long+300, "c", 1)
	f.upload(user, late) // still hot
	f.settle(p, 2*time.Hour)
	require.Zero(t, f.settle(p, 2*time.Hour))
	f.cycle(long + 2000)
	f.requireStands(user, utc, event, late)
	require.Equal(t, int64(1), f.settle(p, 2*time.Hour))
}

func TestHorizonStaysBehindWhatProcessesAccept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := NewPruner(f.pool, PruneConfig{})
	age := 1000 * 24 * time.Hour
	require.NoError(t, DeclareAge(t.Context(), f.pool, age))
	f.settle(p, 2*time.Hour)
	now := f.count(`SELECT floor(extract(epoch FROM now()))::bigint`)
	require.InDelta(t, now-int64(age.Seconds())-86400, f.count(`SELECT from_s FROM horizon`), 60)

	f.exec(`UPDATE accepted_ages SET seen_at = now() - interval '25 hours'`)
	f.settle(p, 2*time.Hour)
	horizon := f.count(`SELECT from_s FROM horizon`)
	require.InDelta(t, now-31*86400, horizon, 60, "who has not been seen for a day counts no longer")

	require.NoError(t, DeclareAge(t.Context(), f.pool, age))
	f.settle(p, 2*time.Hour)
	require.Equal(t, horizon, f.count(`SELECT from_s FROM horizon`), "and nothing brings it back")
}

func TestDeletedStretchesAreForgottenWithTheHorizon(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := NewPruner(f.pool, PruneConfig{})
	user := f.user("UTC", activity.ModeFull)
	now := f.count(`SELECT floor(extract(epoch FROM now()))::bigint`)
	f.exec(`INSERT INTO deleted_stretches VALUES ($1, $2, $2), ($1, $3, $3)`, user, now-90*86400, now-86400)
	f.settle(p, 2*time.Hour)
	f.settle(p, 2*time.Hour)
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM deleted_stretches`))
}
