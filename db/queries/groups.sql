-- Groups, their members and invitations.
--
-- The order of locks, the same everywhere: the actor's shared ingest lock, the row of an invited user, the lock of whose
-- groups and invitations are counted, then rows of groups in the order of their ids. Whoever holds the row of a group waits
-- for nothing else. Members and invitations are read by statements after the one that waited: its own snapshot is older.

-- name: GroupCountInvitationsOf :one
-- The invitations that a user can see, and those of them that are from one owner: who is on off must not use up anybody's.
SELECT count(*) AS open, count(*) FILTER (WHERE g.owner_id = sqlc.arg(owner_id)) AS from_owner
FROM group_invitations i
JOIN groups g ON g.id = i.group_id
JOIN users o ON o.id = g.owner_id
WHERE i.user_id = sqlc.arg(user_id) AND o.privacy <> 'off';

-- name: GroupCountOf :one
SELECT count(*) FROM group_members WHERE user_id = $1;

-- name: GroupDelete :exec
WITH members AS (DELETE FROM group_members m WHERE m.group_id = $1),
     invitations AS (DELETE FROM group_invitations i WHERE i.group_id = $1)
DELETE FROM groups g WHERE g.id = $1;

-- name: GroupDeleteEmpty :exec
-- Those of the groups that the last member left, with their invitations.
WITH empty AS MATERIALIZED (
    SELECT g.id FROM groups g
    WHERE g.id = ANY (sqlc.arg(ids)::uuid[]) AND NOT EXISTS (SELECT FROM group_members m WHERE m.group_id = g.id)
), invitations AS (
    DELETE FROM group_invitations i USING empty e WHERE i.group_id = e.id
)
DELETE FROM groups g USING empty e WHERE g.id = e.id;

-- name: GroupDeleteInvitation :execrows
DELETE FROM group_invitations WHERE group_id = sqlc.arg(group_id) AND user_id = sqlc.arg(user_id);

-- name: GroupDeleteInvitationsOf :exec
DELETE FROM group_invitations WHERE user_id = $1;

-- name: GroupDeleteMember :execrows
DELETE FROM group_members WHERE group_id = ANY (sqlc.arg(ids)::uuid[]) AND user_id = sqlc.arg(user_id);

-- name: GroupFindUser :one
-- Somebody to be invited. FOR KEY SHARE waits for the end of a delete of the user, and has a later one wait.
SELECT id, privacy FROM users WHERE handle = $1 FOR KEY SHARE;

-- name: GroupGetStanding :one
-- What a user is to a group, and how many there are. No row: there is no such group.
SELECT (g.owner_id = sqlc.arg(user_id)::uuid)::boolean AS owner,
    EXISTS (SELECT FROM group_members m WHERE m.group_id = g.id AND m.user_id = sqlc.arg(user_id)) AS member,
    EXISTS (SELECT FROM group_invitations i WHERE i.group_id = g.id AND i.user_id = sqlc.arg(user_id)) AS invited,
    coalesce((SELECT u.privacy FROM users u WHERE u.id = sqlc.arg(user_id)), 'off')::text AS privacy,
    coalesce((SELECT o.privacy FROM users o WHERE o.id = g.owner_id), 'off')::text AS owner_privacy,
    (SELECT count(*) FROM group_members m WHERE m.group_id = g.id) AS members,
    (SELECT count(*) FROM group_invitations i WHERE i.group_id = g.id) AS invitations
FROM groups g
WHERE g.id = sqlc.arg(group_id);

-- name: GroupHandOver :exec
-- Gives those of the groups that the user owned to whoever has been a member for longest, of those who are shown if there
-- are any: nobody could see an owner on off. Runs after the user's own membership is gone.
UPDATE groups g SET owner_id = h.heir
FROM (
    SELECT DISTINCT ON (m.group_id) m.group_id, m.user_id AS heir
    FROM group_members m
    JOIN users u ON u.id = m.user_id
    WHERE m.group_id = ANY (sqlc.arg(ids)::uuid[])
    ORDER BY m.group_id, (u.privacy = 'off'), m.joined_at, m.user_id
) h
WHERE g.id = h.group_id AND g.id = ANY (sqlc.arg(ids)::uuid[]) AND g.owner_id = sqlc.arg(user_id);

-- name: GroupInsert :exec
-- The owner is the first member.
WITH member AS (
    INSERT INTO group_members (group_id, user_id) VALUES (sqlc.arg(id), sqlc.arg(owner_id))
)
INSERT INTO groups (id, owner_id, name) VALUES (sqlc.arg(id), sqlc.arg(owner_id), sqlc.arg(name));

-- name: GroupInsertInvitation :exec
INSERT INTO group_invitations (group_id, user_id) VALUES (sqlc.arg(group_id), sqlc.arg(user_id)) ON CONFLICT DO NOTHING;

-- name: GroupInsertMember :exec
WITH accepted AS (
    DELETE FROM group_invitations i WHERE i.group_id = sqlc.arg(group_id) AND i.user_id = sqlc.arg(user_id)
)
INSERT INTO group_members (group_id, user_id) VALUES (sqlc.arg(group_id), sqlc.arg(user_id));

-- name: GroupListInvited :many
-- Who is invited, first the ones who have waited longest. Who may see them is for the caller to decide, by the mode.
SELECT u.id, u.handle, u.avatar_url, u.privacy, i.invited_at
FROM group_invitations i
JOIN users u ON u.id = i.user_id
WHERE i.group_id = $1
ORDER BY i.invited_at, u.id;

-- name: GroupListInvitationsOf :many
-- The newest invitations that a user can see. Owners who come back from off can bring more than may be made.
SELECT g.id, g.name, i.invited_at, o.id AS owner_id, o.handle, o.avatar_url, o.privacy
FROM group_invitations i
JOIN groups g ON g.id = i.group_id
JOIN users o ON o.id = g.owner_id
WHERE i.user_id = sqlc.arg(user_id) AND o.privacy <> 'off'
ORDER BY i.invited_at DESC, g.id
LIMIT sqlc.arg(max_rows);

-- name: GroupListMembers :many
-- A group with its members, if the viewer is one of them; first the one who has been there longest. In one statement, so
-- that the mode, which decides who is shown, is not older than the rest.
SELECT g.name, g.created_at, g.owner_id, u.id, u.handle, u.avatar_url, u.privacy, m.joined_at
FROM groups g
JOIN group_members m ON m.group_id = g.id
JOIN users u ON u.id = m.user_id
WHERE g.id = sqlc.arg(group_id)
  AND EXISTS (SELECT FROM group_members v WHERE v.group_id = g.id AND v.user_id = sqlc.arg(viewer_id))
ORDER BY m.joined_at, u.id;

-- name: GroupListMemberIDs :many
SELECT user_id FROM group_members WHERE group_id = $1;

-- name: GroupListOf :many
-- The groups of a user with their owners, first the one that was joined first. Who is on off counts for nobody else.
SELECT g.id, g.name, g.created_at, o.id AS owner_id, o.handle, o.avatar_url, o.privacy,
    (SELECT count(*) FROM group_members x JOIN users u ON u.id = x.user_id
     WHERE x.group_id = g.id AND (u.privacy <> 'off' OR u.id = sqlc.arg(user_id)))::bigint AS members
FROM group_members m
JOIN groups g ON g.id = m.group_id
JOIN users o ON o.id = g.owner_id
WHERE m.user_id = sqlc.arg(user_id)
ORDER BY m.joined_at, g.id;

-- name: GroupLock :one
SELECT id FROM groups WHERE id = $1 FOR UPDATE;

-- name: GroupLockActor :exec
-- Of who changes something in a user's name. Mode changes and deletes of the user wait for it, alone: what is read by later
-- statements holds until this transaction ends.
SELECT pg_advisory_xact_lock_shared($1);

-- name: GroupLockAll :many
-- The groups of a user who is being deleted.
SELECT g.id FROM groups g
JOIN group_members m ON m.group_id = g.id
WHERE m.user_id = $1
ORDER BY g.id
FOR UPDATE OF g;

-- name: GroupLockCount :exec
-- Of whoever adds to what is counted of a user: groups, invitations, whom the user follows.
SELECT pg_advisory_xact_lock($1);

-- name: GroupUpdateName :exec
UPDATE groups SET name = sqlc.arg(name) WHERE id = sqlc.arg(id);
