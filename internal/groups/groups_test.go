package groups_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/groups"
)

func TestLifeOfAGroup(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	ada, grace, edsger := ids[0], ids[1], ids[2]
	id, err := b.Create(ctx, ada, " Compiler\nfriends ")
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, b.Invite(ctx, ada, id, "grace"))
		require.NoError(t, b.Invite(ctx, ada, id, "edsger"))
	}
	g, err := b.Get(ctx, ada, id)
	require.NoError(t, err)
	require.Equal(t, "Compiler friends", g.Name)
	require.True(t, g.Owned)
	require.Equal(t, "ada", g.Owner.Handle)
	require.Len(t, g.Invited, 2)

	mine, invitations, err := b.List(ctx, grace)
	require.NoError(t, err)
	require.Empty(t, mine)
	require.Len(t, invitations, 1)
	require.Equal(t, groups.Person{Handle: "ada"}, invitations[0].Owner)
	require.Equal(t, id, invitations[0].Group)
	for range 2 {
		require.NoError(t, b.Accept(ctx, grace, id))
	}
	require.NoError(t, b.Decline(ctx, edsger, id))
	require.ErrorIs(t, b.Decline(ctx, edsger, id), groups.ErrNotFound)
	mine, invitations, err = b.List(ctx, grace)
	require.NoError(t, err)
	require.Empty(t, invitations)
	require.Len(t, mine, 1)
	require.False(t, mine[0].Owned)
	require.EqualValues(t, 2, mine[0].Members)
	require.Equal(t, []string{"ada", "grace"}, b.handles(t, grace, id))
	members, err := b.MemberIDs(ctx, grace, id)
	require.NoError(t, err)
	require.ElementsMatch(t, []uuid.UUID{ada, grace}, members)

	require.ErrorIs(t, b.Invite(ctx, ada, id, "grace"), groups.ErrMember)
	require.ErrorIs(t, b.Invite(ctx, ada, id, "ada"), groups.ErrMember)
	for _, nobody := range []string{"nobody", "", "grace\x00", "\xff"} {
		require.ErrorIs(t, b.Invite(ctx, ada, id, nobody), groups.ErrNotFound)
		require.NoError(t, b.Withdraw(ctx, ada, id, nobody))
		require.NoError(t, b.Remove(ctx, ada, id, nobody))
	}
	require.NoError(t, b.Invite(ctx, ada, id, "edsger"))
	require.NoError(t, b.Withdraw(ctx, ada, id, "edsger"))
	require.ErrorIs(t, b.Withdraw(ctx, ada, id, "edsger"), groups.ErrNotFound)
	require.ErrorIs(t, b.Accept(ctx, edsger, id), groups.ErrNotFound)
	require.NoError(t, b.Rename(ctx, ada, id, "night owls"))
	require.ErrorIs(t, b.Rename(ctx, ada, id, " "), groups.ErrBadName)
	require.ErrorIs(t, b.Remove(ctx, ada, id, "ada"), groups.ErrMember)
	require.ErrorIs(t, b.Remove(ctx, ada, id, "edsger"), groups.ErrNotFound)
	require.NoError(t, b.Remove(ctx, ada, id, "grace"))
	require.Equal(t, []string{"ada"}, b.handles(t, ada, id))
	require.NoError(t, b.Invite(ctx, ada, id, "grace"))
	require.NoError(t, b.Delete(ctx, ada, id))
	require.Zero(t, b.count(t, `groups`)+b.count(t, `group_members`)+b.count(t, `group_invitations`))
}

// everything is each thing that can be done to a group.
func (b *bundle) everything(ctx context.Context, user, id uuid.UUID) map[string]error {
	_, get := b.Get(ctx, user, id)
	_, ids := b.MemberIDs(ctx, user, id)
	return map[string]error{
		"get": get, "members": ids, "rename": b.Rename(ctx, user, id, "x"), "delete": b.Delete(ctx, user, id),
		"invite": b.Invite(ctx, user, id, "grace"), "withdraw": b.Withdraw(ctx, user, id, "edsger"), "accept": b.Accept(ctx, user, id),
		"decline": b.Decline(ctx, user, id), "leave": b.Leave(ctx, user, id), "remove": b.Remove(ctx, user, id, "ada"),
	}
}

func TestWhoMayWhat(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger", "stranger")
	ada, grace, edsger, stranger := ids[0], ids[1], ids[2], ids[3]
	id := b.group(t, ada, grace)
	require.NoError(t, b.Invite(ctx, ada, id, "edsger"))
	for what, err := range b.everything(ctx, stranger, id) {
		require.ErrorIs(t, err, groups.ErrNotFound, "%s by a stranger", what)
	}
	for what, err := range b.everything(ctx, stranger, uuid.New()) {
		require.ErrorIs(t, err, groups.ErrNotFound, "%s of no group", what)
	}
	// Who is invited is no member either.
	_, err := b.Get(ctx, edsger, id)
	require.ErrorIs(t, err, groups.ErrNotFound)
	_, err = b.MemberIDs(ctx, edsger, id)
	require.ErrorIs(t, err, groups.ErrNotFound)
	require.ErrorIs(t, b.Leave(ctx, edsger, id), groups.ErrNotFound)
	require.ErrorIs(t, b.Rename(ctx, edsger, id, "x"), groups.ErrNotFound)

	for what, err := range map[string]error{
		"rename": b.Rename(ctx, grace, id, "x"), "delete": b.Delete(ctx, grace, id), "invite": b.Invite(ctx, grace, id, "stranger"),
		"withdraw": b.Withdraw(ctx, grace, id, "edsger"), "remove": b.Remove(ctx, grace, id, "ada"),
	} {
		require.ErrorIs(t, err, groups.ErrNotOwner, "%s by a member", what)
	}
	g, err := b.Get(ctx, grace, id)
	require.NoError(t, err)
	require.Empty(t, g.Invited, "is for the owner")
	require.Equal(t, "friends", g.Name)
}

func TestWhoIsOffIsHidden(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger", "alan")
	ada, grace, edsger, alan := ids[0], ids[1], ids[2], ids[3]
	b.turn(t, edsger, activity.ModeSummary)
	id := b.group(t, ada, grace, edsger)
	require.NoError(t, b.Invite(ctx, ada, id, "alan"))

	require.Equal(t, []string{"ada", "grace", "edsger"}, b.handles(t, ada, id))
	b.turn(t, grace, activity.ModeOff)
	require.Equal(t, []string{"ada", "edsger"}, b.handles(t, ada, id))
	require.Equal(t, []string{"ada", "grace", "edsger"}, b.handles(t, grace, id), "nobody is hidden from themselves")
	mine, _, err := b.List(ctx, edsger)
	require.NoError(t, err)
	require.EqualValues(t, 2, mine[0].Members)

	b.turn(t, alan, activity.ModeOff)
	g, err := b.Get(ctx, ada, id)
	require.NoError(t, err)
	require.Empty(t, g.Invited)
	require.ErrorIs(t, b.Invite(ctx, ada, id, "alan"), groups.ErrNotFound)
	b.turn(t, alan, activity.ModeFull)

	b.turn(t, ada, activity.ModeOff)
	g, err = b.Get(ctx, edsger, id)
	require.NoError(t, err)
	require.Nil(t, g.Owner)
	require.Equal(t, []string{"edsger"}, b.handles(t, edsger, id))
	mine, _, err = b.List(ctx, edsger)
	require.NoError(t, err)
	require.Nil(t, mine[0].Owner)
	_, invitations, err := b.List(ctx, alan)
	require.NoError(t, err)
	require.Empty(t, invitations)
	require.ErrorIs(t, b.Accept(ctx, alan, id), groups.ErrNotFound)
	b.turn(t, ada, activity.ModeFull)
	require.NoError(t, b.Accept(ctx, alan, id), "it was only hidden")
}

// An owner takes out who is on off, and is told of them what is told of nobody.
func TestWhoIsOffIsTakenOut(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger", "alan")
	ada, grace, edsger := ids[0], ids[1], ids[2]
	id := b.group(t, ada, grace)
	require.NoError(t, b.Invite(ctx, ada, id, "edsger"))
	for _, user := range ids[1:] {
		b.turn(t, user, activity.ModeOff)
	}
	for _, handle := range []string{"grace", "edsger", "alan", "nobody"} {
		for range 2 {
			require.NoError(t, b.Remove(ctx, ada, id, handle), handle)
			require.NoError(t, b.Withdraw(ctx, ada, id, handle), handle)
		}
	}
	require.Zero(t, b.count(t, `group_members WHERE user_id = $1`, grace))
	require.Zero(t, b.count(t, `group_invitations WHERE user_id = $1`, edsger))
	b.turn(t, grace, activity.ModeSummary)
	require.ErrorIs(t, b.Remove(ctx, ada, id, "grace"), groups.ErrNotFound, "who is shown is no secret")
	require.ErrorIs(t, b.Withdraw(ctx, ada, id, "grace"), groups.ErrNotFound)
}

// Nothing new is kept of who is on off; what is there they can end.
func TestWhoIsOffDoesNothingNew(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	ada, grace := ids[0], ids[1]
	owned, other, third := b.group(t, ada, grace), b.group(t, grace, ada), b.group(t, grace)
	require.NoError(t, b.Invite(ctx, ada, owned, "edsger"))
	require.NoError(t, b.Invite(ctx, grace, third, "ada"))
	b.turn(t, ada, activity.ModeOff)
	_, err := b.Create(ctx, ada, "x")
	require.ErrorIs(t, err, groups.ErrOff)
	require.ErrorIs(t, b.Rename(ctx, ada, owned, "x"), groups.ErrOff)
	require.ErrorIs(t, b.Invite(ctx, ada, owned, "edsger"), groups.ErrOff)
	require.ErrorIs(t, b.Accept(ctx, ada, third), groups.ErrOff)
	require.NoError(t, b.Decline(ctx, ada, third))
	require.NoError(t, b.Withdraw(ctx, ada, owned, "edsger"))
	require.NoError(t, b.Remove(ctx, ada, owned, "grace"))
	require.NoError(t, b.Leave(ctx, ada, other))
	require.NoError(t, b.Delete(ctx, ada, owned))
	require.Zero(t, b.count(t, `group_members WHERE user_id = $1`, ada)+b.count(t, `group_invitations WHERE user_id = $1`, ada))
	_, err = b.Create(ctx, uuid.New(), "x")
	require.ErrorIs(t, err, groups.ErrOff, "nor of who does not exist")
}
