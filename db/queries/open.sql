-- Dropping the run that is open when its user switches to off. Every statement here runs in a transaction that holds the
-- user's writer lock and ingest lock, and after the statements that took them.

-- name: OpenDeleteEvents :exec
DELETE FROM events WHERE user_id = sqlc.arg(user_id) AND ts >= sqlc.arg(from_ms)::bigint AND ts < sqlc.arg(before_ms)::bigint;

-- name: OpenDeleteHotRuns :exec
-- A mark may reach beyond the run, over what lay between and was deleted since. Events there keep a mark of their own.
WITH gone AS (
    DELETE FROM hot_runs h
    WHERE h.user_id = sqlc.arg(user_id) AND h.first_s <= sqlc.arg(last_s)::bigint AND h.last_s >= sqlc.arg(first_s)::bigint
    RETURNING h.first_s, h.last_s
)
INSERT INTO hot_runs (user_id, first_s, last_s)
SELECT sqlc.arg(user_id), r.first_s, r.last_s FROM (
    SELECT g.first_s, least(g.last_s, sqlc.arg(first_s)::bigint - 1) AS last_s FROM gone g
    UNION ALL
    SELECT greatest(g.first_s, sqlc.arg(last_s)::bigint + 1) AS first_s, g.last_s FROM gone g
) r
WHERE r.first_s <= r.last_s;

-- name: OpenGetSeconds :many
-- In which seconds a user has hot events: no more rows than the stretch has seconds.
SELECT DISTINCT (ts / 1000)::bigint AS second FROM events
WHERE user_id = sqlc.arg(user_id) AND ts >= sqlc.arg(from_ms)::bigint
ORDER BY second;
