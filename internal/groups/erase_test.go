package groups_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/groups"
	"github.com/commma/commma/internal/testenv"
)

func TestOwnersHandOver(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	ada, grace, edsger := ids[0], ids[1], ids[2]
	id := b.group(t, ada, grace, edsger)
	ownerOf := func() string {
		g, err := b.Get(ctx, edsger, id)
		require.NoError(t, err)
		return g.Owner.Handle
	}
	require.NoError(t, b.Leave(ctx, ada, id))
	require.Equal(t, "grace", ownerOf(), "who has been there longest")
	require.NoError(t, b.Invite(ctx, grace, id, "ada"))
	require.NoError(t, b.Accept(ctx, ada, id))
	b.turn(t, edsger, activity.ModeOff)
	require.NoError(t, b.Leave(ctx, grace, id))
	b.turn(t, edsger, activity.ModeFull)
	require.Equal(t, "ada", ownerOf(), "who is shown comes first")
	require.NoError(t, b.Invite(ctx, ada, id, "grace"))
	require.NoError(t, b.Leave(ctx, edsger, id))
	require.NoError(t, b.Leave(ctx, ada, id))
	require.Zero(t, b.count(t, `groups`)+b.count(t, `group_members`)+b.count(t, `group_invitations`), "nobody is left")
}

func TestDeletedUserIsInNoGroup(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	ada, grace, edsger := ids[0], ids[1], ids[2]
	alone, shared, foreign, invited := b.group(t, ada), b.group(t, ada, grace, edsger), b.group(t, grace, ada), b.group(t, grace)
	require.NoError(t, b.Invite(ctx, ada, alone, "grace"))
	require.NoError(t, b.Invite(ctx, grace, invited, "ada"))
	require.NoError(t, b.app.Accounts.DeleteUser(ctx, ada))
	require.Zero(t, b.count(t, `groups WHERE owner_id = $1`, ada)+b.count(t, `group_members WHERE user_id = $1`, ada)+
		b.count(t, `group_invitations WHERE user_id = $1`, ada))
	require.Zero(t, b.count(t, `groups WHERE id = $1`, alone)+b.count(t, `group_invitations WHERE group_id = $1`, alone))
	require.Equal(t, []string{"grace", "edsger"}, b.handles(t, edsger, shared))
	require.NoError(t, b.Rename(ctx, grace, shared, "hers now"))
	require.Equal(t, []string{"grace"}, b.handles(t, grace, foreign))
}

// Who is being deleted is not invited any more, whatever was in flight.
func TestInvitationOfAUserWhoIsBeingDeleted(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace")
	ada, grace := ids[0], ids[1]
	id := b.group(t, ada)
	tx := testenv.Begin(t, b.app.DB)
	_, err := tx.Exec(ctx, `SELECT FROM users WHERE id = $1 FOR UPDATE`, grace) // as every delete does first
	require.NoError(t, err)
	invited := make(chan error, 1)
	go func() { invited <- b.Invite(ctx, ada, id, "grace") }()
	testenv.AwaitWaiters(t, b.app.DB, 1)
	require.NoError(t, groups.EraseUserTx(ctx, tx, grace))
	_, err = tx.Exec(ctx, `DELETE FROM users WHERE id = $1`, grace)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	require.ErrorIs(t, <-invited, groups.ErrNotFound)
	require.Zero(t, b.count(t, `group_invitations`))
}

// Two owners who go at once leave no group to somebody who is gone.
func TestOwnersDeletedAtOnce(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	list := make([]uuid.UUID, 6)
	for i := range list {
		list[i] = b.group(t, ids[i%2], ids[(i+1)%2], ids[2])
	}
	results := make(chan error, 2)
	for _, going := range ids[:2] {
		go func() { results <- b.app.Accounts.DeleteUser(ctx, going) }()
	}
	require.NoError(t, <-results)
	require.NoError(t, <-results)
	require.Equal(t, len(list), b.count(t, `groups WHERE owner_id = $1`, ids[2]))
	require.Equal(t, len(list), b.count(t, `group_members`))
}
