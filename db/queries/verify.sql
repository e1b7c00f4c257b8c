-- Comparing what is stored twice: totals and streaks with the seconds of sessions, boards with totals. Each comparison is
-- one statement, so that both sides are of one snapshot, and takes a page of users, so that none runs for long.

-- name: VerifyBoardTotals :many
-- Places that a board should have, most seconds first, after one of them: a stretch of the index of boards, which lang
-- alone would not find.
SELECT t.user_id, t.seconds, u.version FROM totals t
JOIN users u ON u.id = t.user_id
WHERE t.period = sqlc.arg(period) AND t.starts_on = sqlc.arg(starts_on) AND t.lang || '' = sqlc.arg(lang)::text
  AND (t.seconds, t.user_id) < (sqlc.arg(seconds)::bigint, sqlc.arg(user_id)::uuid) AND t.seconds > 0 AND u.privacy <> 'off'
ORDER BY t.seconds DESC, t.user_id DESC
LIMIT sqlc.arg(max_rows);

-- name: VerifyBoardUsers :many
-- What a board should hold of some users: no seconds of those who are gone, on off or without a total, and the facts that a
-- page shows. The version is that which was published last, or will be. The total of each is looked up by user: joined, or
-- by the expression of the boards' index, the planner may read the whole board for it.
SELECT i.user_id::uuid AS user_id, coalesce(u.version, o.version, 0)::bigint AS version,
    (o.user_id IS NOT NULL)::boolean AS pending, (u.id IS NULL)::boolean AS gone,
    (CASE WHEN u.privacy <> 'off' THEN coalesce((SELECT t.seconds FROM totals t
        WHERE t.user_id = u.id AND t.period = sqlc.arg(period) AND t.starts_on = sqlc.arg(starts_on) AND t.lang = sqlc.arg(lang)::text), 0)
        ELSE 0 END)::bigint AS seconds,
    coalesce(u.handle, '')::text AS handle, coalesce(u.avatar_url, '')::text AS avatar_url, u.streak_first_on, u.streak_last_on,
    coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = i.user_id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone,
    coalesce((SELECT l.lang FROM totals l
        WHERE l.user_id = i.user_id AND l.period = sqlc.arg(period) AND l.starts_on = sqlc.arg(starts_on) AND l.seconds > 0
          AND (l.lang IN (SELECT unnest(sqlc.arg(board_langs)::text[]))) IS TRUE
        ORDER BY l.seconds DESC, l.lang LIMIT 1), '')::text AS top_lang
FROM (SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) i
LEFT JOIN users u ON u.id = i.user_id
LEFT JOIN outbox o ON o.user_id = i.user_id;

-- name: VerifyCountUsers :one
SELECT count(*)::bigint FROM users;

-- name: VerifyDeleteOrphans :exec
-- Seconds of sessions that do not exist.
DELETE FROM session_seconds t
WHERE t.user_id = sqlc.arg(user_id) AND NOT EXISTS (SELECT FROM sessions s WHERE s.id = t.session_id AND s.user_id = t.user_id);

-- name: VerifyDeleteSeconds :exec
DELETE FROM session_seconds WHERE user_id = sqlc.arg(user_id) AND session_id = sqlc.arg(session_id);

-- name: VerifyExplainSeconds :many
-- What the day totals leave for one session, when all others are taken away.
SELECT coalesce(t.starts_on, o.day)::date AS day, coalesce(t.lang, o.lang)::text AS lang,
    (coalesce(t.seconds, 0) - coalesce(o.seconds, 0))::bigint AS seconds
FROM (SELECT a.starts_on, a.lang, a.seconds FROM totals a WHERE a.user_id = sqlc.arg(user_id) AND a.period = 'day' AND a.lang <> '') t
FULL JOIN (
    SELECT x.day, x.lang, sum(x.seconds)::bigint AS seconds FROM session_seconds x
    WHERE x.user_id = sqlc.arg(user_id) AND x.session_id <> sqlc.arg(session_id)
    GROUP BY x.day, x.lang
) o ON o.day = t.starts_on AND o.lang = t.lang
WHERE coalesce(t.seconds, 0) <> coalesce(o.seconds, 0);

-- name: VerifyGetVersion :one
SELECT version FROM users WHERE id = $1;

-- name: VerifyHealSessionCount :exec
UPDATE users u SET session_count = (SELECT count(*) FROM sessions s WHERE s.user_id = u.id) WHERE u.id = $1;

-- name: VerifyHealTotals :exec
-- Totals from the seconds of sessions. What should be there and was not changed here is put in: a total that was zero may
-- be deleted by a publisher while this waits for its row.
WITH days AS (
    SELECT s.day, s.lang, sum(s.seconds)::bigint AS seconds FROM session_seconds s
    WHERE s.user_id = sqlc.arg(user_id)
    GROUP BY s.day, s.lang
), want AS (
    SELECT p.period, p.starts_on, l.lang, sum(d.seconds)::bigint AS seconds FROM days d
    CROSS JOIN LATERAL (SELECT unnest(ARRAY['day', 'week', 'month', 'alltime']) AS period, unnest(ARRAY[d.day,
        d.day - (extract(isodow FROM d.day)::int - 1), date_trunc('month', d.day::timestamp)::date, '1970-01-01'::date]) AS starts_on) p
    CROSS JOIN LATERAL (SELECT unnest(ARRAY[d.lang, '']) AS lang) l
    GROUP BY p.period, p.starts_on, l.lang
), right_ones AS (
    SELECT t.period, t.starts_on, t.lang FROM totals t
    JOIN want w ON w.period = t.period AND w.starts_on = t.starts_on AND w.lang = t.lang AND w.seconds = t.seconds
    WHERE t.user_id = sqlc.arg(user_id)
), fixed AS (
    UPDATE totals t SET seconds = w.seconds FROM want w
    WHERE t.user_id = sqlc.arg(user_id) AND t.period = w.period AND t.starts_on = w.starts_on AND t.lang = w.lang
      AND t.seconds <> w.seconds
    RETURNING t.period, t.starts_on, t.lang
), emptied AS (
    UPDATE totals t SET seconds = 0
    WHERE t.user_id = sqlc.arg(user_id) AND t.seconds <> 0
      AND NOT EXISTS (SELECT FROM want w WHERE w.period = t.period AND w.starts_on = t.starts_on AND w.lang = t.lang)
)
INSERT INTO totals (user_id, period, starts_on, lang, seconds)
SELECT sqlc.arg(user_id), w.period, w.starts_on, w.lang, w.seconds FROM want w
WHERE NOT EXISTS (SELECT FROM right_ones r WHERE r.period = w.period AND r.starts_on = w.starts_on AND r.lang = w.lang)
  AND NOT EXISTS (SELECT FROM fixed f WHERE f.period = w.period AND f.starts_on = w.starts_on AND f.lang = w.lang);

-- name: VerifyInsertZeroTotals :exec
-- Totals of zero make the publisher remove the user from those boards; then it deletes them.
INSERT INTO totals (user_id, period, starts_on, lang, seconds)
SELECT DISTINCT sqlc.arg(user_id)::uuid, z.period, z.starts_on, z.lang, 0
FROM (SELECT unnest(sqlc.arg(periods)::text[]) AS period, unnest(sqlc.arg(starts)::date[]) AS starts_on,
             unnest(sqlc.arg(langs)::text[]) AS lang) z
ON CONFLICT (user_id, period, starts_on, lang) DO NOTHING;

-- name: VerifyListUsers :many
SELECT id FROM users WHERE id > sqlc.arg(after) ORDER BY id LIMIT sqlc.arg(max_rows);

-- name: VerifySessions :many
-- Sessions whose seconds do not add up to their duration, and seconds without a session (duration 0).
SELECT coalesce(s.user_id, x.user_id)::uuid AS user_id, coalesce(s.id, x.session_id)::uuid AS session_id,
    (s.id IS NULL)::boolean AS orphan, coalesce(s.duration, 0)::bigint AS duration, coalesce(x.seconds, 0)::bigint AS seconds,
    coalesce(s.first_on, '1970-01-01')::date AS first_on, coalesce(s.last_on, '1970-01-01')::date AS last_on
FROM (
    SELECT a.user_id, a.id, extract(epoch FROM a.ended_at - a.started_at)::bigint AS duration,
        (a.started_at AT TIME ZONE 'UTC')::date - 1 AS first_on, (a.ended_at AT TIME ZONE 'UTC')::date + 1 AS last_on
    FROM sessions a WHERE a.user_id = ANY (sqlc.arg(user_ids)::uuid[])
) s
FULL JOIN (
    SELECT b.user_id, b.session_id, sum(b.seconds)::bigint AS seconds FROM session_seconds b
    WHERE b.user_id = ANY (sqlc.arg(user_ids)::uuid[])
    GROUP BY b.user_id, b.session_id
) x ON x.session_id = s.id AND x.user_id = s.user_id
WHERE coalesce(s.duration, 0) <> coalesce(x.seconds, 0);

-- name: VerifySpanSeconds :many
-- The seconds that some users' sessions have on the days of a span, of those who are shown.
SELECT s.user_id, sum(s.seconds)::bigint AS seconds FROM session_seconds s
JOIN users u ON u.id = s.user_id
WHERE s.user_id = ANY (sqlc.arg(user_ids)::uuid[]) AND u.privacy <> 'off'
  AND s.day >= sqlc.arg(from_day) AND s.day < sqlc.arg(to_day)
  AND (sqlc.arg(lang)::text = '' OR s.lang = sqlc.arg(lang)::text)
GROUP BY s.user_id;

-- name: VerifyUsers :many
-- What disagrees of some users, by kind: sessions whose seconds do not add up to their duration or have no session, totals
-- that are not the sums of the seconds, streaks that the days do not make, numbers of sessions; how many, and by how many seconds. A total of zero
-- awaits the publication of its removal, and is as good as none. The seconds of sessions, of which there are most, are read
-- once for all three: all are of one snapshot, and reading them is most of what the check costs.
WITH seconds AS MATERIALIZED (
    SELECT s.user_id, s.session_id, s.day, s.lang, s.seconds FROM session_seconds s
    WHERE s.user_id = ANY (sqlc.arg(user_ids)::uuid[])
), stands AS MATERIALIZED (
    SELECT a.user_id, a.id, extract(epoch FROM a.ended_at - a.started_at)::bigint AS duration
    FROM sessions a WHERE a.user_id = ANY (sqlc.arg(user_ids)::uuid[])
), sessions_off AS (
    SELECT coalesce(s.user_id, x.user_id) AS user_id, abs(coalesce(s.duration, 0) - coalesce(x.seconds, 0)) AS off
    FROM stands s
    FULL JOIN (
        SELECT b.user_id, b.session_id, sum(b.seconds)::bigint AS seconds FROM seconds b GROUP BY b.user_id, b.session_id
    ) x ON x.session_id = s.id AND x.user_id = s.user_id
    WHERE coalesce(s.duration, 0) <> coalesce(x.seconds, 0)
), days AS MATERIALIZED (
    SELECT s.user_id, s.day, s.lang, sum(s.seconds)::bigint AS seconds FROM seconds s GROUP BY s.user_id, s.day, s.lang
), want AS (
    SELECT d.user_id, p.period, p.starts_on, l.lang, sum(d.seconds)::bigint AS seconds FROM days d
    CROSS JOIN LATERAL (SELECT unnest(ARRAY['day', 'week', 'month', 'alltime']) AS period, unnest(ARRAY[d.day,
        d.day - (extract(isodow FROM d.day)::int - 1), date_trunc('month', d.day::timestamp)::date, '1970-01-01'::date]) AS starts_on) p
    CROSS JOIN LATERAL (SELECT unnest(ARRAY[d.lang, '']) AS lang) l
    GROUP BY d.user_id, p.period, p.starts_on, l.lang
), totals_off AS (
    SELECT coalesce(w.user_id, t.user_id) AS user_id, abs(coalesce(w.seconds, 0) - coalesce(t.seconds, 0)) AS off
    FROM want w
    FULL JOIN (SELECT * FROM totals a WHERE a.user_id = ANY (sqlc.arg(user_ids)::uuid[])) t
      ON t.user_id = w.user_id AND t.period = w.period AND t.starts_on = w.starts_on AND t.lang = w.lang
    WHERE coalesce(w.seconds, 0) <> coalesce(t.seconds, 0)
), runs AS (
    SELECT g.user_id, min(g.day) AS first_on, max(g.day) AS last_on, count(*) AS days
    FROM (SELECT d.user_id, d.day, d.day - (row_number() OVER (PARTITION BY d.user_id ORDER BY d.day))::int AS run
          FROM (SELECT DISTINCT e.user_id, e.day FROM days e) d) g
    GROUP BY g.user_id, g.run
), streaks AS (
    SELECT r.user_id, max(r.last_on) AS last_on, max(r.days) AS longest,
        (array_agg(r.first_on ORDER BY r.last_on DESC))[1] AS first_on
    FROM runs r GROUP BY r.user_id
)
SELECT o.user_id::uuid AS user_id, 'session'::text AS kind, count(*)::bigint AS off, sum(o.off)::bigint AS seconds
FROM sessions_off o GROUP BY o.user_id
UNION ALL
SELECT o.user_id, 'total', count(*), sum(o.off)::bigint FROM totals_off o GROUP BY o.user_id
UNION ALL
SELECT u.id, 'streak', 1, 0 FROM users u
LEFT JOIN streaks w ON w.user_id = u.id
WHERE u.id = ANY (sqlc.arg(user_ids)::uuid[])
  AND (u.streak_first_on IS DISTINCT FROM w.first_on OR u.streak_last_on IS DISTINCT FROM w.last_on
    OR u.longest_streak_days <> coalesce(w.longest, 0))
UNION ALL
SELECT u.id, 'count', abs(u.session_count - coalesce(n.n, 0)), 0 FROM users u
LEFT JOIN (SELECT s.user_id, count(*) AS n FROM stands s GROUP BY s.user_id) n ON n.user_id = u.id
WHERE u.id = ANY (sqlc.arg(user_ids)::uuid[]) AND u.session_count <> coalesce(n.n, 0);
