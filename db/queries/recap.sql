-- A user's week in review. Every number is from the totals, or from the seconds of sessions that they are the sums of, and
-- all statements of one recap see one snapshot. Read for one user or for a page of users by the same statements.

-- name: RecapActiveAfter :many
-- The next users in order of id, and which of them were active in the week. The inner limit bounds what a page looks at,
-- whoever was active: a page costs the same anywhere, and all pages together cost each user once.
SELECT w.id, EXISTS (
    SELECT FROM totals t
    WHERE t.user_id = w.id AND t.period = 'week' AND t.starts_on = sqlc.arg(week) AND t.lang = '' AND t.seconds > 0
)::boolean AS active
FROM (SELECT u.id FROM users u WHERE u.id > sqlc.arg(after) AND u.privacy <> 'off' ORDER BY u.id LIMIT sqlc.arg(max_rows)) w
ORDER BY w.id;

-- name: RecapCountAbove :one
-- How many users have more seconds in a week: a stretch of the index of boards.
SELECT count(*)::bigint FROM totals t
WHERE t.period = 'week' AND t.starts_on = sqlc.arg(week) AND t.lang || '' = ''::text AND t.seconds > sqlc.arg(seconds)::bigint
  AND NOT EXISTS (SELECT FROM users u WHERE u.id = t.user_id AND u.privacy = 'off');

-- name: RecapDays :many
-- Totals of all languages: the two weeks, and the days of both.
SELECT t.user_id, t.period, t.starts_on, t.seconds FROM totals t
WHERE t.user_id = ANY (sqlc.arg(user_ids)::uuid[]) AND t.lang = '' AND t.seconds > 0
  AND t.period IN ('week', 'day') AND t.starts_on >= sqlc.arg(prior) AND t.starts_on < sqlc.arg(ends_on);

-- name: RecapLadder :many
-- How many users have how many seconds in a week, most first: the ranks of all in one pass.
SELECT t.seconds, count(*)::bigint AS users FROM totals t
WHERE t.period = 'week' AND t.starts_on = sqlc.arg(week) AND t.lang || '' = ''::text AND t.seconds > 0
  AND NOT EXISTS (SELECT FROM users u WHERE u.id = t.user_id AND u.privacy = 'off')
GROUP BY t.seconds
ORDER BY t.seconds DESC;

-- name: RecapLanguages :many
-- The largest languages of each user in the week. The limit is per user: names that the list lacks can be many.
SELECT x.user_id::uuid AS user_id, l.lang, l.seconds
FROM (SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) x
CROSS JOIN LATERAL (
    SELECT t.lang, t.seconds FROM totals t
    WHERE t.user_id = x.user_id AND t.period = 'week' AND t.starts_on = sqlc.arg(week) AND t.lang <> '' AND t.seconds > 0
    ORDER BY t.seconds DESC, t.lang LIMIT sqlc.arg(max_rows)
) l
ORDER BY x.user_id, l.seconds DESC, l.lang;

-- name: RecapSessions :many
-- How many sessions have seconds in the week, and the one that has most. Sessions do not overlap, so of those that began
-- before the stretch only the last can reach into it. The stretch is wider than the week by what zones differ.
SELECT f.user_id::uuid AS user_id, count(*)::bigint AS sessions, max(f.seconds)::bigint AS best_seconds,
    ((array_agg(f.id ORDER BY f.seconds DESC, f.started_at, f.id))[1])::uuid AS best_id
FROM (
    SELECT c.user_id, c.id, c.started_at, (
        SELECT coalesce(sum(d.seconds), 0) FROM session_seconds d
        WHERE d.user_id = c.user_id AND d.session_id = c.id AND d.day >= sqlc.arg(week) AND d.day < sqlc.arg(ends_on)
    )::bigint AS seconds
    FROM (
        SELECT s.user_id, s.id, s.started_at FROM sessions s
        WHERE s.user_id = ANY (sqlc.arg(user_ids)::uuid[]) AND s.started_at >= sqlc.arg(from_at) AND s.started_at < sqlc.arg(to_at)
        UNION ALL
        SELECT x.user_id, b.id, b.started_at
        FROM (SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) x
        CROSS JOIN LATERAL (
            SELECT s.id, s.started_at FROM sessions s
            WHERE s.user_id = x.user_id AND s.started_at < sqlc.arg(from_at)
            ORDER BY s.started_at DESC, s.id DESC LIMIT 1
        ) b
    ) c
) f
WHERE f.seconds > 0
GROUP BY f.user_id;

-- name: RecapUsers :many
-- Who they are. top_lang is chosen as boards choose it: among the languages that have boards.
SELECT u.id, u.handle, u.privacy, u.email, u.recap_mail, u.streak_first_on, u.streak_last_on,
    coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = u.id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone,
    coalesce((SELECT l.lang FROM totals l
        WHERE l.user_id = u.id AND l.period = 'week' AND l.starts_on = sqlc.arg(week) AND l.seconds > 0
          AND (l.lang IN (SELECT unnest(sqlc.arg(board_langs)::text[]))) IS TRUE
        ORDER BY l.seconds DESC, l.lang LIMIT 1), '')::text AS top_lang
FROM users u
WHERE u.id = ANY (sqlc.arg(user_ids)::uuid[])
ORDER BY u.id;
