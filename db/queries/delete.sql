-- Deletes of sessions and users, and the pruning of what no later event could touch.

-- name: DeleteGetHeir :one
SELECT heir FROM session_aliases WHERE user_id = sqlc.arg(user_id) AND id = sqlc.arg(id);

-- name: DeleteGetSession :one
SELECT (extract(epoch FROM started_at)::bigint + 60)::bigint AS first_s, extract(epoch FROM ended_at)::bigint AS last_s
FROM sessions WHERE user_id = sqlc.arg(user_id) AND id = sqlc.arg(id);

-- name: DeleteStretch :exec
-- Drops what is hot in a stretch of a user's time, and remembers to drop what arrives later.
WITH remembered AS (
    INSERT INTO deleted_stretches (user_id, first_s, last_s)
    VALUES (sqlc.arg(user_id), sqlc.arg(first_s)::bigint, sqlc.arg(last_s)::bigint)
    ON CONFLICT DO NOTHING
)
DELETE FROM events e
WHERE e.user_id = sqlc.arg(user_id) AND e.ts >= sqlc.arg(first_s)::bigint * 1000 AND e.ts < (sqlc.arg(last_s)::bigint + 1) * 1000;

-- name: DeleteLockUser :one
-- The lock that only a delete takes: whoever writes something down of a user who must exist waits for the end of it.
SELECT version FROM users WHERE id = sqlc.arg(id) FOR UPDATE;

-- name: DeleteUser :exec
-- The handles that the user gave up are free from then on, like the last one: nothing of the user stays.
WITH zones AS (DELETE FROM user_zones z WHERE z.user_id = $1),
     handles AS (DELETE FROM former_handles h WHERE h.user_id = $1)
DELETE FROM users u WHERE u.id = $1;

-- name: DeleteUserAggregates :exec
WITH s1 AS (DELETE FROM sessions t WHERE t.user_id = $1),
     s2 AS (DELETE FROM session_seconds t WHERE t.user_id = $1),
     s3 AS (DELETE FROM session_details t WHERE t.user_id = $1),
     s4 AS (DELETE FROM session_aliases t WHERE t.user_id = $1),
     s5 AS (DELETE FROM archives t WHERE t.user_id = $1),
     s6 AS (DELETE FROM archive_details t WHERE t.user_id = $1),
     s7 AS (DELETE FROM finalize_failures t WHERE t.user_id = $1),
     s8 AS (DELETE FROM deleted_stretches t WHERE t.user_id = $1)
DELETE FROM totals t WHERE t.user_id = $1;

-- name: DeleteUserIngest :exec
WITH e AS (DELETE FROM events t WHERE t.user_id = $1)
DELETE FROM rejections t WHERE t.user_id = $1;

-- name: PruneAdvanceHorizon :exec
-- Once per margin the horizon settles where it stands, and moves on to where no running process accepts events any more,
-- by Postgres's clock, and never back. A process counts for a day after it last said what it accepts.
UPDATE horizon h
SET settled_s = h.from_s,
    from_s = greatest(h.from_s, floor(extract(epoch FROM statement_timestamp()))::bigint - sqlc.arg(slack_s)::bigint
        - greatest(sqlc.arg(default_age_s)::bigint, (SELECT max(a.age_s) FROM accepted_ages a
                                                     WHERE a.seen_at > statement_timestamp() - interval '1 day'))),
    advanced_at = statement_timestamp()
WHERE h.advanced_at <= statement_timestamp() - sqlc.arg(margin_s)::bigint * interval '1 second';

-- name: PruneGetSettled :one
SELECT settled_s FROM horizon;

-- name: PruneListUsers :many
-- Users with archives of sessions that no event from the horizon on could touch.
SELECT DISTINCT a.user_id FROM (
    SELECT t.user_id FROM archives t
    WHERE t.ended_s < sqlc.arg(settled_s)::bigint - 900
      AND NOT EXISTS (SELECT 1 FROM events e WHERE e.user_id = t.user_id AND e.ts < sqlc.arg(settled_s)::bigint * 1000)
    ORDER BY t.ended_s LIMIT sqlc.arg(max_rows)
) a;

-- name: PruneUser :execrows
-- Holds the user's writer lock. A hot event from before the horizon was accepted before the horizon came there: until it
-- is finalized nothing of the user may go.
WITH prunable AS MATERIALIZED (
    SELECT DISTINCT a.session_id FROM archives a
    WHERE a.user_id = sqlc.arg(user_id) AND a.ended_s < sqlc.arg(settled_s)::bigint - 900
      AND NOT EXISTS (SELECT 1 FROM events e WHERE e.user_id = sqlc.arg(user_id) AND e.ts < sqlc.arg(settled_s)::bigint * 1000)
), details AS (
    DELETE FROM archive_details d USING prunable p WHERE d.user_id = sqlc.arg(user_id) AND d.session_id = p.session_id
)
DELETE FROM archives a USING prunable p WHERE a.user_id = sqlc.arg(user_id) AND a.session_id = p.session_id;

-- name: PruneStretches :execrows
-- Nothing can arrive any more for a deleted stretch that lies before the settled horizon. What somebody else has locked, who
-- prunes too or deletes its user, is left alone.
WITH past AS MATERIALIZED (
    SELECT s.user_id, s.first_s, s.last_s FROM deleted_stretches s
    WHERE s.last_s < sqlc.arg(settled_s)::bigint
      AND NOT EXISTS (SELECT 1 FROM events e WHERE e.user_id = s.user_id AND e.ts < sqlc.arg(settled_s)::bigint * 1000)
    FOR UPDATE OF s SKIP LOCKED
)
DELETE FROM deleted_stretches d USING past p
WHERE d.user_id = p.user_id AND d.first_s = p.first_s AND d.last_s = p.last_s;

-- name: PruneUpsertAge :exec
INSERT INTO accepted_ages (age_s, seen_at) VALUES (sqlc.arg(age_s), statement_timestamp())
ON CONFLICT (age_s) DO UPDATE SET seen_at = excluded.seen_at;
