-- When users were last seen.

-- name: SeenApply :execrows
-- Touches that column alone, and never moves it backwards. Who is on off is judged by the row as it is once it is locked.
WITH input AS MATERIALIZED (
    SELECT i.user_id, 'epoch'::timestamptz + i.ms * interval '1 millisecond' AS at
    FROM (SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id, unnest(sqlc.arg(at_ms)::bigint[]) AS ms) i
), locked AS MATERIALIZED (
    SELECT c.user_id, i.at
    FROM user_counters c JOIN input i ON i.user_id = c.user_id
    WHERE c.keeps AND (c.last_seen_at IS NULL OR c.last_seen_at < i.at)
    ORDER BY c.user_id
    FOR NO KEY UPDATE OF c
)
UPDATE user_counters c SET last_seen_at = l.at
FROM locked l
WHERE c.user_id = l.user_id AND c.keeps AND (c.last_seen_at IS NULL OR c.last_seen_at < l.at);

-- name: SeenForget :exec
-- A user who goes off: what is known goes, and nothing new is kept.
UPDATE user_counters SET last_seen_at = NULL, keeps = false WHERE user_id = $1;

-- name: SeenGet :one
SELECT last_seen_at FROM user_counters WHERE user_id = $1;

-- name: SeenResume :exec
UPDATE user_counters SET keeps = true WHERE user_id = $1;
