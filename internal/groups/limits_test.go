package groups_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/groups"
	"github.com/commma/commma/internal/testenv"
)

// fill makes so many others members of a group.
func (b *bundle) fill(t *testing.T, id uuid.UUID, members int) {
	t.Helper()
	b.exec(t, `INSERT INTO group_members (group_id, user_id) SELECT $1, gen_random_uuid() FROM generate_series(1, $2::int)`, id, members)
}

// busy makes a user a member of so many groups.
func (b *bundle) busy(t *testing.T, user uuid.UUID, n int) {
	t.Helper()
	b.exec(t, `INSERT INTO group_members (group_id, user_id) SELECT gen_random_uuid(), $1 FROM generate_series(1, $2::int)`, user, n)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	ada, grace, edsger := ids[0], ids[1], ids[2]
	id := b.group(t, ada)
	require.NoError(t, b.Invite(ctx, ada, id, "grace"))
	b.fill(t, id, groups.MaxMembers-2)
	require.ErrorIs(t, b.Invite(ctx, ada, id, "edsger"), groups.ErrTooMany, "who is invited counts")
	require.NoError(t, b.Invite(ctx, ada, id, "grace"), "who is invited already needs no place")
	require.NoError(t, b.Accept(ctx, grace, id))

	other := b.group(t, ada)
	alan := b.user(t, "alan")
	b.wanted(t, alan, edsger, groups.MaxInvitations-1)
	require.NoError(t, b.Invite(ctx, ada, other, "edsger"))
	require.ErrorIs(t, b.Invite(ctx, ada, b.group(t, ada), "edsger"), groups.ErrTooMany)

	b.busy(t, edsger, groups.MaxGroups)
	require.ErrorIs(t, b.Accept(ctx, edsger, other), groups.ErrTooMany)
	_, err := b.Create(ctx, edsger, "x")
	require.ErrorIs(t, err, groups.ErrTooMany)
	require.ErrorIs(t, b.Accept(ctx, edsger, uuid.New()), groups.ErrNotFound, "what is hidden stays so at the limit")
}

// wanted has an owner invite somebody into so many groups, whatever the limits say.
func (b *bundle) wanted(t *testing.T, owner, invitee uuid.UUID, n int) {
	t.Helper()
	b.exec(t, `WITH made AS (INSERT INTO groups (id, owner_id, name) SELECT gen_random_uuid(), $1, 'x' FROM generate_series(1, $3::int) RETURNING id)
		INSERT INTO group_invitations (group_id, user_id) SELECT id, $2 FROM made`, owner, invitee, n)
}

// One owner does not use up what others may send, neither by sending all nor by hiding afterwards.
func TestNobodyIsKeptFromInvitations(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	ada, grace, edsger := ids[0], ids[1], ids[2]
	var made []uuid.UUID
	for range groups.MaxInvitationsFrom {
		made = append(made, b.group(t, ada))
		require.NoError(t, b.Invite(ctx, ada, made[len(made)-1], "edsger"))
	}
	more := b.group(t, ada)
	require.ErrorIs(t, b.Invite(ctx, ada, more, "edsger"), groups.ErrTooMany)
	require.NoError(t, b.Invite(ctx, ada, made[0], "edsger"), "again changes nothing")
	require.NoError(t, b.Invite(ctx, ada, more, "grace"), "it is per pair")
	require.NoError(t, b.Decline(ctx, edsger, made[0]))
	require.NoError(t, b.Invite(ctx, ada, more, "edsger"))

	b.wanted(t, ada, edsger, groups.MaxInvitations)
	own := b.group(t, grace)
	require.ErrorIs(t, b.Invite(ctx, grace, own, "edsger"), groups.ErrTooMany)
	b.turn(t, ada, activity.ModeOff)
	require.NoError(t, b.Invite(ctx, grace, own, "edsger"), "what is hidden takes no place")
	require.NoError(t, b.Decline(ctx, edsger, more), "and can be declined")
	require.ErrorIs(t, b.Decline(ctx, edsger, more), groups.ErrNotFound)
	_, invitations, err := b.List(ctx, edsger)
	require.NoError(t, err)
	require.Len(t, invitations, 1)
	b.turn(t, ada, activity.ModeFull)
	_, invitations, err = b.List(ctx, edsger)
	require.NoError(t, err)
	require.Len(t, invitations, groups.MaxInvitations, "the list is bounded whoever comes back")
}

// race has two wait for what a statement locks, lets them go, and wants one of them to find no room.
func (b *bundle) race(t *testing.T, first, second func() error, lock string, args ...any) {
	t.Helper()
	tx := testenv.Begin(t, b.app.DB)
	_, err := tx.Exec(t.Context(), lock, args...)
	require.NoError(t, err)
	results := make(chan error, 2)
	go func() { results <- first() }()
	go func() { results <- second() }()
	testenv.AwaitWaiters(t, b.app.DB, 2)
	require.NoError(t, tx.Rollback(t.Context()))
	refused, taken := <-results, <-results
	if refused == nil {
		refused, taken = taken, refused
	}
	require.ErrorIs(t, refused, groups.ErrTooMany)
	require.NoError(t, taken)
}

// Two at once do not both find the last place, whether it is a user's or a group's.
func TestLimitsHoldAtOnce(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ids := b.users(t, "ada", "grace", "edsger")
	ada, grace, edsger := ids[0], ids[1], ids[2]
	b.busy(t, grace, groups.MaxGroups-1)
	one, two := b.group(t, ada), b.group(t, ada)
	for _, id := range []uuid.UUID{one, two} {
		require.NoError(t, b.Invite(ctx, ada, id, "grace"))
	}
	// Both have counted when the rows of the groups are let go, unless the second waits for the first.
	b.race(t, func() error { return b.Accept(ctx, grace, one) }, func() error { return b.Accept(ctx, grace, two) },
		`SELECT FROM groups WHERE owner_id = $1 FOR UPDATE`, ada)

	b.wanted(t, ada, edsger, groups.MaxInvitationsFrom-1)
	b.race(t, func() error { return b.Invite(ctx, ada, one, "edsger") }, func() error { return b.Invite(ctx, ada, two, "edsger") },
		`SELECT FROM groups WHERE owner_id = $1 FOR UPDATE`, ada)
	b.exec(t, `DELETE FROM group_invitations WHERE user_id = $1`, edsger)

	full := b.group(t, ada)
	b.exec(t, `DELETE FROM group_members WHERE user_id = $1`, grace)
	require.NoError(t, b.Invite(ctx, ada, full, "grace"))
	require.NoError(t, b.Invite(ctx, ada, full, "edsger"))
	b.fill(t, full, groups.MaxMembers-2)
	b.race(t, func() error { return b.Accept(ctx, grace, full) }, func() error { return b.Accept(ctx, edsger, full) },
		`SELECT FROM groups WHERE id = $1 FOR UPDATE`, full)
	require.Equal(t, groups.MaxMembers, b.count(t, `group_members WHERE group_id = $1`, full))
}
