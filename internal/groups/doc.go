// Package groups keeps private groups: who owns one, who is a member, who is invited. The boards of a group are computed by
// package leaderboard from the totals of its members, so nothing here has to follow totals, modes or handles.
//
// # Who may what
//
// A group is there for its members alone; to everybody else, whoever is invited included, it does not exist. Members see
// each other while they are on full or summary, and leave when they like. The owner, who is a member, also invites, removes,
// renames and deletes. Who is on off makes, joins and changes nothing, sees what they are a member of, takes no place and is
// shown to nobody: not as a member, not as the owner, not as invited, and an invitation from them is hidden too: it counts
// against no limit of the invited, who cannot accept it, but can decline it. The owner of a group can take out who is on off,
// by the handle, without being told whether they were in.
//
// When the owner leaves or is deleted, the group goes to whoever has been a member for longest, of those who are shown if
// there are any. When nobody is left, it is deleted.
//
// # Order that must not change
//
//   - The actor's shared ingest lock, by a statement of its own, before anything is read that decides: a change of the actor's
//     mode, or a delete, comes wholly before or wholly after.
//   - An invited user's row, FOR KEY SHARE, before the invitation is made: whoever deletes the user holds the row first, and
//     then either finds the invitation or has it find nobody.
//   - The count lock of whose groups or invitations grow, before they are counted.
//   - The row of the group last. Members and invitations are counted by a statement after it, for the snapshot of the one that
//     waited is older than the wait. Several groups are locked in the order of their ids.
package groups
