package account

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

func (b *bundle) named(t *testing.T, handle string) uuid.UUID {
	t.Helper()
	u, err := b.Create(t.Context(), NewUser{Handle: handle})
	require.NoError(t, err)
	return u.ID
}

func (b *bundle) rename(t *testing.T, id uuid.UUID, handle string) error {
	t.Helper()
	return b.Change(t.Context(), id, Change{Handle: &handle})
}

func TestChangeHandle(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	ada, grace := b.named(t, "ada"), b.named(t, "grace")
	version := b.stored(t, ada).Version

	require.NoError(t, b.rename(t, ada, "ada"), "the same again changes nothing")
	require.Equal(t, version, b.stored(t, ada).Version)
	require.ErrorIs(t, b.rename(t, ada, "grace"), ErrHandleTaken)
	require.Equal(t, version, b.stored(t, ada).Version)
	require.NoError(t, b.rename(t, ada, "lovelace"))
	require.Equal(t, version+1, b.stored(t, ada).Version)
	require.Equal(t, []int64{version + 1}, b.enqueued)
	require.Len(t, b.published, 1+1, "boards follow before the answer; so they did for the change that changed nothing")
	me, err := b.Me(t.Context(), ada)
	require.NoError(t, err)
	require.Equal(t, "lovelace", me.Handle)

	// The old one is nobody else's, neither by renaming nor by signing up, and its owner's at any time.
	require.ErrorIs(t, b.rename(t, grace, "ada"), ErrHandleTaken)
	_, err = b.Create(t.Context(), NewUser{Handle: "ada"})
	require.ErrorIs(t, err, ErrHandleTaken)
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM former_handles
		WHERE until BETWEEN now() + interval '89 days' AND now() + interval '91 days'`))
	require.NoError(t, b.rename(t, ada, "ada"))
	require.ErrorIs(t, b.rename(t, grace, "lovelace"), ErrHandleTaken)
	require.Equal(t, 1, b.mustCount(t, `SELECT count(*) FROM former_handles`), "what was taken back is not a former one")

	// Until its time is over.
	b.mustExec(t, `UPDATE former_handles SET until = now() - interval '1 second'`)
	require.NoError(t, b.rename(t, grace, "lovelace"))
	require.Equal(t, "grace", b.former(t, grace))

	var invalid *InvalidError
	for _, bad := range []string{"", "a b", "ä", "under_score", fmt.Sprintf("%040d", 0)} {
		require.ErrorAs(t, b.rename(t, ada, bad), &invalid, bad)
		require.Equal(t, "handle", invalid.Field)
	}
	require.ErrorIs(t, b.rename(t, uuid.New(), "nobody"), ErrUnknownUser)
}

// former is the only handle that is kept for a user.
func (b *bundle) former(t *testing.T, id uuid.UUID) (handle string) {
	t.Helper()
	require.NoError(t, b.db.QueryRow(t.Context(), `SELECT handle FROM former_handles WHERE user_id = $1`, id).Scan(&handle))
	return handle
}

// Nobody can keep many handles from others.
func TestHandleChangesAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	id := b.named(t, "h0")
	for n := range maxFormerHandles {
		require.NoError(t, b.rename(t, id, fmt.Sprintf("h%d", n+1)))
	}
	require.ErrorIs(t, b.rename(t, id, "one-more"), ErrHandleChanges)
	require.NoError(t, b.rename(t, id, "h0"), "a former one can be taken back")
	b.mustExec(t, `UPDATE former_handles SET until = now() - interval '1 second' WHERE handle = 'h1'`)
	require.NoError(t, b.rename(t, id, "one-more"))
	require.Equal(t, maxFormerHandles, b.mustCount(t, `SELECT count(*) FROM former_handles`), "what is over is forgotten")
}

// Nothing of a deleted user stays, the handles that they gave up included.
func TestDeletedUsersHandlesAreFree(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	id := b.named(t, "ada")
	require.NoError(t, b.rename(t, id, "lovelace"))
	require.NoError(t, b.DeleteUser(t.Context(), id))
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM former_handles`))
	b.named(t, "ada")
	b.named(t, "lovelace")
}

// Who wants a handle while its owner gives it up waits for that, and does not get it: the snapshot of the statement that
// waited is older than what the owner left behind.
func TestHandleIsNotTakenWhileItIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rename", "create"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{LockWait: time.Minute, Timeout: 2 * time.Minute})
			owner, other := b.named(t, "ada"), b.named(t, "other")
			var taken chan error
			err := store.WithTx(t.Context(), b.db, func(ctx context.Context, tx pgx.Tx) error {
				if err := b.changeHandleTx(ctx, tx, owner, "lovelace"); err != nil {
					return err
				}
				taken = make(chan error, 1)
				go func() {
					if name == "rename" {
						taken <- b.rename(t, other, "ada")
						return
					}
					_, err := b.Create(t.Context(), NewUser{Handle: "ada"})
					taken <- err
				}()
				testenv.AwaitWaiters(t, b.db, 1)
				return nil
			})
			require.NoError(t, err)
			require.ErrorIs(t, <-taken, ErrHandleTaken)
		})
	}
}

// All that is asked for is changed, or nothing.
func TestHandleWithModeAndZone(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	ada := b.named(t, "ada")
	b.named(t, "grace")
	change := Change{Handle: ptr("grace"), Mode: ptr(activity.ModeSummary), Zone: ptr("Asia/Calcutta")}
	require.ErrorIs(t, b.Change(t.Context(), ada, change), ErrHandleTaken)
	require.Equal(t, activity.ModeFull, b.stored(t, ada).Mode)
	change.Handle = ptr("lovelace")
	require.NoError(t, b.Change(t.Context(), ada, change))
	me, err := b.Me(t.Context(), ada)
	require.NoError(t, err)
	require.Equal(t, "lovelace", me.Handle)
	require.Equal(t, "Asia/Calcutta", me.Zone)
	require.Equal(t, b.stored(t, ada), b.cached(t, ada), "the cache has the last version")
}
