-- Views of profiles and sessions, as they are flushed and read.

-- name: ViewsApply :many
-- Adds what was gathered to the counters of sessions and users and to the days. What belongs to an absorbed session goes to
-- its heir, what belongs to nobody is dropped. A session that was absorbed by a transaction that this statement had to wait
-- for has no row any more and no heir yet in this snapshot: such entries are returned, for a later statement to try. A nil
-- session is the profile. Rows are locked in the order of their keys, sessions before users before days; the count that is
-- never negative is what keeps users_locked behind sessions_locked.
WITH input AS MATERIALIZED (
    SELECT i.owner_id, i.session_id, i.day, i.n
    FROM (SELECT unnest(sqlc.arg(owners)::uuid[]) AS owner_id, unnest(sqlc.arg(sessions)::uuid[]) AS session_id,
                 unnest(sqlc.arg(days)::date[]) AS day, unnest(sqlc.arg(counts)::bigint[]) AS n) i
    JOIN user_counters k ON k.user_id = i.owner_id AND k.keeps
), resolved AS MATERIALIZED (
    SELECT i.owner_id, i.session_id, i.day, i.n, i.session_id = '00000000-0000-0000-0000-000000000000' AS is_profile,
           coalesce(a.heir, i.session_id) AS target_id
    FROM input i LEFT JOIN session_aliases a ON a.id = i.session_id AND a.user_id = i.owner_id
), sessions_locked AS MATERIALIZED (
    SELECT c.user_id, c.session_id FROM session_counters c
    WHERE (c.user_id, c.session_id) IN (SELECT r.owner_id, r.target_id FROM resolved r WHERE NOT r.is_profile)
    ORDER BY c.user_id, c.session_id
    FOR NO KEY UPDATE OF c
), users_locked AS MATERIALIZED (
    SELECT c.user_id FROM user_counters c
    WHERE c.keeps AND c.user_id IN (SELECT r.owner_id FROM resolved r WHERE r.is_profile)
      AND (SELECT count(*) FROM sessions_locked) >= 0
    ORDER BY c.user_id
    FOR NO KEY UPDATE OF c
), sessions_counted AS (
    UPDATE session_counters c SET views = c.views + s.n
    FROM (SELECT r.owner_id, r.target_id, sum(r.n)::bigint AS n FROM resolved r WHERE NOT r.is_profile GROUP BY 1, 2) s
    JOIN sessions_locked l ON l.user_id = s.owner_id AND l.session_id = s.target_id
    WHERE c.user_id = s.owner_id AND c.session_id = s.target_id
    RETURNING c.user_id, c.session_id
), users_counted AS (
    UPDATE user_counters c SET views = c.views + s.n
    FROM (SELECT r.owner_id, sum(r.n)::bigint AS n FROM resolved r WHERE r.is_profile GROUP BY 1) s
    JOIN users_locked l ON l.user_id = s.owner_id
    WHERE c.user_id = s.owner_id
    RETURNING c.user_id
), counted AS (
    INSERT INTO view_days (user_id, day, profile, sessions)
    SELECT r.owner_id, r.day, coalesce(sum(r.n) FILTER (WHERE r.is_profile), 0)::bigint,
           coalesce(sum(r.n) FILTER (WHERE NOT r.is_profile), 0)::bigint
    FROM resolved r
    WHERE r.is_profile AND r.owner_id IN (SELECT u.user_id FROM users_counted u)
       OR NOT r.is_profile AND (r.owner_id, r.target_id) IN (SELECT s.user_id, s.session_id FROM sessions_counted s)
    GROUP BY r.owner_id, r.day
    ORDER BY r.owner_id, r.day
    ON CONFLICT (user_id, day) DO UPDATE SET profile = view_days.profile + excluded.profile, sessions = view_days.sessions + excluded.sessions
)
SELECT DISTINCT r.owner_id::uuid AS owner_id, r.session_id::uuid AS session_id, r.target_id::uuid AS target_id FROM resolved r
WHERE NOT r.is_profile AND (r.owner_id, r.target_id) NOT IN (SELECT s.user_id, s.session_id FROM sessions_counted s);

-- name: ViewsDeleteDays :exec
DELETE FROM view_days WHERE user_id = $1;

-- name: ViewsDeleteSessions :exec
DELETE FROM session_counters WHERE user_id = $1;

-- name: ViewsDeleteUser :exec
DELETE FROM user_counters WHERE user_id = $1;

-- name: ViewsListDays :many
SELECT day, profile, sessions FROM view_days
WHERE user_id = sqlc.arg(user_id) AND day >= sqlc.arg(from_day)::date ORDER BY day;
