package account

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
)

func ptr[T any](v T) *T { return &v }

func TestChange(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	id := b.mustUser(t, activity.ModeFull)
	b.mustStoreSecrets(t, id)
	for _, step := range []struct {
		change Change
		mode   activity.Mode
		zone   string
	}{
		{Change{}, activity.ModeFull, "UTC"},
		{Change{Zone: ptr("Asia/Tokyo")}, activity.ModeFull, "Asia/Tokyo"},
		{Change{Mode: ptr(activity.ModeSummary), Zone: ptr("Europe/Berlin")}, activity.ModeSummary, "Europe/Berlin"},
		{Change{Mode: ptr(activity.ModeOff)}, activity.ModeOff, "Europe/Berlin"},
	} {
		require.NoError(t, b.Change(t.Context(), id, step.change))
		me, err := b.Me(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, step.mode, me.Mode)
		require.Equal(t, step.zone, me.Zone)
	}
	require.Zero(t, b.secrets(t, id))
	require.Equal(t, b.stored(t, id), b.cached(t, id), "the cache has the last version")
}

// A change that fails half-way changes nothing: the zone is changed first, the mode's outbox row fails.
func TestChangeIsWholeOrNot(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	id := b.mustUser(t, activity.ModeFull)
	before := b.stored(t, id)
	calls := 0
	b.deps.EnqueueFunc = func(context.Context, pgx.Tx, uuid.UUID, int64) error {
		if calls++; calls == 2 {
			return errors.New("planted")
		}
		return nil
	}
	require.ErrorContains(t, b.Change(t.Context(), id, Change{Mode: ptr(activity.ModeOff), Zone: ptr("Asia/Tokyo")}), "planted")
	require.Equal(t, 2, calls)
	require.Equal(t, before, b.stored(t, id))
	me, err := b.Me(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "UTC", me.Zone)
}

func TestChangeRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	id := b.mustUser(t, activity.ModeFull)
	var invalid *InvalidError
	require.ErrorAs(t, b.Change(t.Context(), id, Change{Mode: ptr(activity.ModeOff), Zone: ptr("Mars/Base")}), &invalid)
	require.ErrorAs(t, b.Change(t.Context(), id, Change{Mode: ptr(activity.Mode("open")), Zone: ptr("UTC")}), &invalid)
	require.Equal(t, activity.ModeFull, b.stored(t, id).Mode)
	require.ErrorIs(t, b.Change(t.Context(), uuid.New(), Change{Mode: ptr(activity.ModeOff), Zone: ptr("UTC")}), ErrUnknownUser)
}
