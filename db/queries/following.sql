-- Who follows whom, and what those whom somebody follows have done.

-- name: FollowCount :one
SELECT count(*) FROM follows WHERE user_id = $1;

-- name: FollowDelete :exec
-- By handle, whoever has it now and in whatever mode: who is not shown can be left all the same.
DELETE FROM follows f USING users u
WHERE f.user_id = sqlc.arg(user_id) AND f.followee_id = u.id AND u.handle = sqlc.arg(handle);

-- name: FollowDeleteUser :exec
-- All that a user follows, and all who follow the user.
DELETE FROM follows WHERE user_id = $1 OR followee_id = $1;

-- name: FollowInsert :exec
INSERT INTO follows (user_id, followee_id) VALUES (sqlc.arg(user_id), sqlc.arg(followee_id)) ON CONFLICT DO NOTHING;

-- name: FollowIs :one
SELECT EXISTS (SELECT FROM follows WHERE user_id = sqlc.arg(user_id) AND followee_id = sqlc.arg(followee_id));

-- name: FollowList :many
-- Whom a user follows, by handle, with the mode that decides who is shown.
SELECT u.id, u.handle, u.avatar_url, u.privacy, f.followed_at
FROM follows f
JOIN users u ON u.id = f.followee_id
WHERE f.user_id = $1
ORDER BY u.handle;

-- name: FollowListIDs :many
SELECT followee_id FROM follows WHERE user_id = $1;

-- name: FollowListSessions :many
-- The sessions of those whom a user follows, newest first, strictly before (before_at, before_id) in that order, with the mode
-- that decides what is shown. Of each of them no more are read than fit on the page, by the index: a page costs what the user
-- follows, at any depth and with any history.
SELECT p.id, p.user_id, p.started_at, p.ended_at, p.keystrokes, p.lines, p.top_lang, p.handle, p.avatar_url, p.privacy,
    coalesce(c.views, 0)::bigint AS views, coalesce(c.shares, 0)::bigint AS shares,
    coalesce(c.kudos, 0)::bigint AS kudos, coalesce(c.comments, 0)::bigint AS comments
FROM (
    SELECT s.id, u.id AS user_id, s.started_at, s.ended_at, s.keystrokes, s.lines, s.top_lang, u.handle, u.avatar_url, u.privacy
    FROM follows f
    JOIN users u ON u.id = f.followee_id AND u.privacy <> 'off'
    CROSS JOIN LATERAL (
        SELECT x.id, x.started_at, x.ended_at, x.keystrokes, x.lines, x.top_lang FROM sessions x
        WHERE x.user_id = u.id AND (x.started_at, x.id) < (sqlc.arg(before_at)::timestamptz, sqlc.arg(before_id)::uuid)
        ORDER BY x.started_at DESC, x.id DESC
        LIMIT sqlc.arg(max_rows)::integer
    ) s
    WHERE f.user_id = sqlc.arg(user_id)
    ORDER BY s.started_at DESC, s.id DESC
    LIMIT sqlc.arg(max_rows)
) p
LEFT JOIN session_counters c ON c.user_id = p.user_id AND c.session_id = p.id
ORDER BY p.started_at DESC, p.id DESC;
