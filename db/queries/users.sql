-- One user's row and zones.

-- name: UserGet :one
SELECT id, handle, avatar_url, email, recap_mail, privacy, version, streak_first_on, streak_last_on, longest_streak_days, created_at,
       coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = users.id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone
FROM users
WHERE id = $1;

-- name: UserGetAuth :one
-- All that an admission needs to know of a user, by primary key.
SELECT token_hash, privacy, version FROM users WHERE id = $1;

-- name: UserGetMode :one
SELECT privacy, version FROM users WHERE id = $1;

-- name: UserGetRejections :many
-- What was refused in the last days, by reason, by the clock that stamped it.
SELECT reason, sum(count)::bigint AS count
FROM rejections
WHERE user_id = sqlc.arg(user_id) AND at > now() - make_interval(days => sqlc.arg(days)::int)
GROUP BY reason
ORDER BY reason;

-- name: UserGetZone :one
-- The zone in force: the latest change. No row means that there is no such user.
SELECT coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = users.id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone
FROM users
WHERE id = $1;

-- name: UserDeleteFormerHandle :exec
-- A handle that was claimed is nobody's former one any more, and what nobody can claim back any more is forgotten.
DELETE FROM former_handles
WHERE handle = sqlc.arg(handle) OR user_id = sqlc.arg(user_id) AND until <= clock_timestamp();

-- name: UserGetHandle :one
-- With how many former handles the user still keeps from others, the one that is wanted aside.
SELECT u.handle, (SELECT count(*) FROM former_handles f
                  WHERE f.user_id = u.id AND f.until > clock_timestamp() AND f.handle <> sqlc.arg(wanted))::bigint AS kept
FROM users u WHERE u.id = sqlc.arg(id);

-- name: UserHandleIsKept :one
-- Whether a handle is kept for somebody else. Runs after the statement that claimed it, which waited for whoever was about to
-- give it up: only a later snapshot sees what that one has left behind.
SELECT EXISTS (SELECT 1 FROM former_handles
               WHERE handle = sqlc.arg(handle) AND user_id <> sqlc.arg(user_id) AND until > clock_timestamp())::boolean;

-- name: UserInsert :exec
-- The first zone counts for all time before the second. Counters are made with the user.
WITH inserted AS (
    INSERT INTO users (id, handle, token_hash, avatar_url, email, privacy)
    VALUES (sqlc.arg(id), sqlc.arg(handle), sqlc.arg(token_hash), sqlc.narg(avatar_url), sqlc.narg(email), sqlc.arg(privacy))
    RETURNING id, privacy
), counters AS (
    INSERT INTO user_counters (user_id, keeps) SELECT i.id, i.privacy <> 'off' FROM inserted i
)
INSERT INTO user_zones (user_id, from_s, zone) SELECT i.id, 0, sqlc.arg(zone) FROM inserted i;

-- name: UserInsertZone :exec
-- A change counts from its own floored second, by Postgres's clock. Of two within a second the last wins; and it comes
-- after the one before it even when the clock was set back in between.
INSERT INTO user_zones (user_id, from_s, zone)
SELECT sqlc.arg(user_id), greatest(floor(extract(epoch FROM clock_timestamp()))::bigint, max(z.from_s)), sqlc.arg(zone)
FROM user_zones z
WHERE z.user_id = sqlc.arg(user_id)
ON CONFLICT (user_id, from_s) DO UPDATE SET zone = excluded.zone;

-- name: UserUpdateHandle :one
-- The old handle is kept for its owner, by Postgres's clock.
WITH old AS (
    SELECT u.id, u.handle FROM users u WHERE u.id = sqlc.arg(id)
), kept AS (
    INSERT INTO former_handles (handle, user_id, until)
    SELECT o.handle, o.id, clock_timestamp() + make_interval(days => sqlc.arg(days)::int) FROM old o
    ON CONFLICT (handle) DO UPDATE SET user_id = excluded.user_id, until = excluded.until
)
UPDATE users SET handle = sqlc.arg(handle), version = version + 1 WHERE users.id = sqlc.arg(id) RETURNING version;

-- name: UserUpdateMail :execrows
-- Sets what is given. To take the address away takes the choice back too; to choose mail without an address breaks the
-- constraint users_recap_mail.
UPDATE users
SET email = CASE WHEN sqlc.arg(set_email)::boolean THEN sqlc.narg(email)::text ELSE email END,
    recap_mail = CASE WHEN sqlc.arg(set_choice)::boolean THEN sqlc.arg(choice)::boolean
                      ELSE recap_mail AND NOT (sqlc.arg(set_email)::boolean AND sqlc.narg(email)::text IS NULL) END
WHERE id = sqlc.arg(id);

-- name: UserUpdateMode :one
UPDATE users SET privacy = sqlc.arg(privacy), version = version + 1 WHERE id = sqlc.arg(id) RETURNING version;

-- name: UserUpdateVersion :one
UPDATE users SET version = version + 1 WHERE id = $1 RETURNING version;
