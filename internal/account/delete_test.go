package account

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

func TestDeleteUserIsBusyOrWhole(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"writer", "ingest"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{LockWait: 100 * time.Millisecond})
			user := b.mustUser(t, activity.ModeFull)
			b.mustStoreSecrets(t, user)
			var release func()
			if lock == "writer" {
				_, release = b.hold(t, "pg_advisory_xact_lock", store.WriterLock(user))
			} else {
				_, release = b.hold(t, "pg_advisory_xact_lock_shared", store.IngestLock(user))
			}
			require.ErrorIs(t, b.DeleteUser(t.Context(), user), ErrBusy)
			require.Equal(t, 4, b.secrets(t, user), "nothing was changed")
			require.Empty(t, b.forgotten)
			release()
			require.NoError(t, b.DeleteUser(t.Context(), user))
			require.Zero(t, b.secrets(t, user))
			require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM outbox WHERE user_id = $1 AND version = 1`, user))
			require.Equal(t, []uuid.UUID{user}, b.forgotten)
			require.Len(t, b.published, 1, "published before it answers")
			require.Equal(t, privacy.Entry{}, b.cached(t, user))
			require.ErrorIs(t, b.DeleteUser(t.Context(), user), ErrUnknownUser)
		})
	}
}

// An aggregator that could not finalize a user holds no lock when it writes that down. It waits for a delete that is under
// way, and then there is nobody to write it down of.
func TestNobodyIsSetAsideBesideADelete(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	user := b.mustUser(t, activity.ModeFull)
	release := b.holdDeletes(t)
	deleted, setAside := make(chan error, 1), make(chan error, 1)
	go func() { deleted <- b.DeleteUser(t.Context(), user) }()
	testenv.AwaitWaiters(t, b.db, 1) // all is erased but the user
	go func() {
		_, err := dbsqlc.New().ScanUpsertFailure(t.Context(), b.db, "test", user)
		setAside <- err
	}()
	testenv.AwaitWaiters(t, b.db, 2)
	release()
	require.NoError(t, <-deleted)
	require.NoError(t, <-setAside)
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM finalize_failures`))
}

func TestDeleteSessionIsBusyOrWhole(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{LockWait: 100 * time.Millisecond})
	user := b.mustUser(t, activity.ModeFull)
	session := b.mustSession(t, user)
	_, release := b.hold(t, "pg_advisory_xact_lock", store.WriterLock(user))
	require.ErrorIs(t, b.DeleteSession(t.Context(), user, session), ErrBusy)
	require.Empty(t, b.published)
	release()
	require.NoError(t, b.DeleteSession(t.Context(), user, session))
	require.Len(t, b.published, 1)
	require.ErrorIs(t, b.DeleteSession(t.Context(), user, session), aggregate.ErrNoSession)
}

// What was deleted cannot be deleted again, so it is an error only if boards may still show it.
func TestDeletesThatAreNotShown(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	for _, tt := range []struct{ publish, want error }{
		{fmt.Errorf("publish: %w", leaderboard.ErrAway), nil},
		{errors.New("a board is being built"), ErrNotShown},
	} {
		user := b.mustUser(t, activity.ModeFull)
		session := b.mustSession(t, user)
		b.publish = tt.publish
		require.Equal(t, tt.want, b.DeleteSession(t.Context(), user, session))
		if tt.want != nil {
			require.Equal(t, tt.want, b.DeleteSession(t.Context(), user, session), "asked again")
			b.publish = nil
		}
		require.ErrorIs(t, b.DeleteSession(t.Context(), user, session), aggregate.ErrNoSession)
		b.publish = tt.publish
		require.Equal(t, tt.want, b.DeleteUser(t.Context(), user))
		require.ErrorIs(t, b.DeleteUser(t.Context(), user), ErrUnknownUser)
		require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM outbox WHERE user_id = $1`, user))
	}
}
