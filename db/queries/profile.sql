-- A user as others see them.

-- name: ProfileGetStats :one
-- From the totals, like everything else that is shown, with the mode that decides who sees it. Languages that are not listed
-- are not for the public.
SELECT u.privacy, u.session_count AS total_sessions,
       coalesce((SELECT t.seconds FROM totals t WHERE t.user_id = u.id AND t.period = 'alltime' AND t.lang = ''), 0)::bigint AS total_seconds,
       coalesce((SELECT t.lang FROM totals t
                 WHERE t.user_id = u.id AND t.period = 'alltime' AND t.lang = ANY (sqlc.arg(langs)::text[]) AND t.seconds > 0
                 ORDER BY t.seconds DESC, t.lang LIMIT 1), '')::text AS top_lang,
       coalesce((SELECT c.views FROM user_counters c WHERE c.user_id = u.id), 0)::bigint AS views
FROM users u
WHERE u.id = sqlc.arg(user_id);

-- name: ProfileGetDays :one
-- Seconds of each day of a stretch in order, with the mode that decides who sees them. Each day is looked up by itself: the
-- cost follows the days that are asked for, not the languages of a day nor the days before.
SELECT u.privacy,
       array(SELECT coalesce((SELECT t.seconds FROM totals t
                              WHERE t.user_id = u.id AND t.period = 'day' AND t.starts_on = d.day AND t.lang = ''), 0)
             FROM (SELECT sqlc.arg(from_day)::date + n AS day FROM generate_series(0, sqlc.arg(to_day)::date - sqlc.arg(from_day)::date) n) d
             ORDER BY d.day)::bigint[] AS seconds
FROM users u
WHERE u.id = sqlc.arg(user_id);

-- name: ProfileGetUser :one
SELECT u.id, u.handle, u.avatar_url, u.privacy, u.streak_first_on, u.streak_last_on, u.longest_streak_days, u.created_at,
       coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = u.id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone
FROM users u
WHERE u.handle = $1;

-- name: ProfileGetUserByID :one
SELECT u.id, u.handle, u.avatar_url, u.privacy, u.streak_first_on, u.streak_last_on, u.longest_streak_days, u.created_at,
       coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = u.id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone
FROM users u
WHERE u.id = $1;
