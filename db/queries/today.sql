-- What has been coded today, open runs included. All statements are of one snapshot, and take no lock.

-- name: TodayGetHotSeconds :many
-- In which seconds a user has hot events, of the newest max_rows that were stored.
SELECT DISTINCT (e.ts / 1000)::bigint AS second FROM (
    SELECT t.ts FROM events t WHERE t.user_id = sqlc.arg(user_id) ORDER BY t.seq DESC LIMIT sqlc.arg(max_rows)::bigint
) e;

-- name: TodayGetSeconds :one
-- What stands of a day: in all sessions, and in some of them.
SELECT coalesce((SELECT t.seconds FROM totals t
                 WHERE t.user_id = sqlc.arg(user_id) AND t.period = 'day' AND t.starts_on = sqlc.arg(day) AND t.lang = ''), 0)::bigint AS total,
       coalesce((SELECT sum(s.seconds) FROM session_seconds s
                 WHERE s.user_id = sqlc.arg(user_id) AND s.session_id = ANY (sqlc.arg(session_ids)::uuid[]) AND s.day = sqlc.arg(day)), 0)::bigint AS touched;
