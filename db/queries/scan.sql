-- Who is due. Nothing here reads an event.

-- name: ScanDueUsers :many
-- Users with a run that has ended, or that has been open for a day, by Postgres's clock unless the caller brings one.
-- On the way the rows of runs that are still open are merged into one, so that each is looked at once per idle time and
-- not once per upload. The row that stands for merged ones covers just those that this statement locked and deletes, so no
-- stretch is ever without one, whoever else is at work. A user's rows are looked up by user, and nothing is joined that no
-- index helps to join: the cost grows with the rows that are looked at, not with their square, nor with the rows of others.
WITH ripe AS MATERIALIZED (
    -- Written out, so that the planner can tell how many they are.
    SELECT DISTINCT h.user_id
    FROM hot_runs h
    WHERE h.last_s < floor(extract(epoch FROM coalesce(sqlc.narg(now)::timestamptz, statement_timestamp())))::bigint - 900
      AND NOT EXISTS (SELECT 1 FROM finalize_failures f WHERE f.user_id = h.user_id
                      AND f.next_try_at > statement_timestamp())
), runs AS MATERIALIZED (
    SELECT r.user_id, u.run, u.first_s, u.last_s, u.seqs
    FROM ripe r CROSS JOIN LATERAL (
        SELECT n.run, min(n.first_s) AS first_s, max(n.last_s) AS last_s, array_agg(n.seq) AS seqs
        FROM (
            SELECT m.*, count(*) FILTER (WHERE m.reach IS NULL OR m.first_s - m.reach > 900) OVER (ORDER BY m.first_s, m.seq) AS run
            FROM (
                SELECT h.seq, h.first_s, h.last_s,
                       max(h.last_s) OVER (ORDER BY h.first_s, h.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reach
                FROM hot_runs h WHERE h.user_id = r.user_id
            ) m
        ) n GROUP BY n.run
    ) u
), clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM coalesce(sqlc.narg(now)::timestamptz, statement_timestamp())))::bigint AS now_s
), due AS MATERIALIZED (
    SELECT r.user_id, min(r.last_s) AS last_s FROM runs r, clock c
    WHERE r.last_s < c.now_s - 900 OR r.first_s <= c.now_s - 86400
    GROUP BY r.user_id
), open AS MATERIALIZED (
    SELECT r.user_id, r.run, unnest(r.seqs) AS seq FROM runs r, clock c
    WHERE r.last_s >= c.now_s - 900 AND cardinality(r.seqs) > 1
), mergeable AS MATERIALIZED (
    SELECT h.user_id, h.seq, h.first_s, h.last_s, o.run
    FROM open o JOIN hot_runs h ON h.user_id = o.user_id AND h.seq = o.seq
    FOR UPDATE OF h SKIP LOCKED
), merged AS (
    DELETE FROM hot_runs h USING mergeable m WHERE h.user_id = m.user_id AND h.seq = m.seq
), inserted AS (
    INSERT INTO hot_runs (user_id, first_s, last_s)
    SELECT m.user_id, min(m.first_s), max(m.last_s) FROM mergeable m GROUP BY m.user_id, m.run
)
SELECT d.user_id FROM due d ORDER BY d.last_s, d.user_id;

-- name: ScanDeleteMarks :one
-- Deletes a user's marks and says whether there were any.
WITH gone AS (DELETE FROM hot_runs h WHERE h.user_id = sqlc.arg(user_id))
SELECT EXISTS (SELECT FROM hot_runs m WHERE m.user_id = sqlc.arg(user_id))::boolean AS found;

-- name: ScanDeleteFailure :exec
DELETE FROM finalize_failures WHERE user_id = $1;

-- name: ScanDeleteDoneFailures :exec
-- Who may be tried again and has nothing hot was finalized after all: by somebody else, or by a commit whose answer was lost.
DELETE FROM finalize_failures f
WHERE f.next_try_at <= statement_timestamp() AND NOT EXISTS (SELECT 1 FROM hot_runs h WHERE h.user_id = f.user_id);

-- name: ScanCountFailures :one
SELECT count(*) FROM finalize_failures;

-- name: ScanDeleteOldRejections :execrows
DELETE FROM rejections WHERE at < statement_timestamp() - sqlc.arg(kept_s)::bigint * interval '1 second';

-- name: ScanForgiveFailure :exec
-- Takes an attempt back that did not come to pass.
UPDATE finalize_failures SET attempts = attempts - 1, next_try_at = statement_timestamp() WHERE user_id = $1;

-- name: ScanUpsertFailure :many
-- Sets a user aside: after the n-th failure in a row for 2^n minutes, at most a day. No row means that the user is gone:
-- a delete that is under way is waited for, so that nothing is written down of whom it erases.
INSERT INTO finalize_failures AS f (user_id, attempts, next_try_at, reason)
SELECT u.id, 1, statement_timestamp() + interval '2 minutes', sqlc.arg(reason)
FROM users u WHERE u.id = sqlc.arg(user_id)
FOR KEY SHARE
ON CONFLICT (user_id) DO UPDATE
SET attempts = f.attempts + 1,
    next_try_at = statement_timestamp() + least(interval '1 minute' * power(2, least(f.attempts + 1, 12)), interval '1 day'),
    reason = excluded.reason
RETURNING attempts, next_try_at;
