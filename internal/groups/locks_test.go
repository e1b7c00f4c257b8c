package groups_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/groups"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

// Two owners who invite one user at once do not both find the last place.
func TestInvitationsAreCountedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "edsger", "grace")
	one, two := b.group(t, ids[0]), b.group(t, ids[1])
	for i := range groups.MaxInvitations - 1 { // each of another group, and of another owner
		owner := b.user(t, fmt.Sprint("owner-", i))
		require.NoError(t, b.Invite(ctx, owner, b.group(t, owner), "grace"))
	}
	// They may count, and wait before they insert.
	b.race(t, func() error { return b.Invite(ctx, ids[0], one, "grace") }, func() error { return b.Invite(ctx, ids[1], two, "grace") },
		`LOCK TABLE group_invitations IN SHARE MODE`)
}

// Who is about to go off makes no group: the change of mode comes wholly before, or wholly after.
func TestAGroupWaitsForAChangeOfMode(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ada := b.user(t, "ada")
	tx := testenv.Begin(t, b.app.DB)
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, store.IngestLock(ada)) // as a change of mode does first
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `UPDATE users SET privacy = 'off' WHERE id = $1`, ada)
	require.NoError(t, err)
	created := make(chan error, 1)
	go func() {
		_, err := b.Create(ctx, ada, "friends")
		created <- err
	}()
	testenv.AwaitWaiters(t, b.app.DB, 1)
	require.NoError(t, tx.Commit(ctx))
	require.ErrorIs(t, <-created, groups.ErrOff)
	require.Zero(t, b.count(t, `groups`))
}
