-- What boards are built from, and how a page is read from Postgres. A board is one stretch of the index totals_board:
-- (lang, period, starts_on) fixed, then seconds and user_id, both descending. Users on off take no place in it.
-- The facts of a row are read for the rows of the page only, which is why the inner queries carry the limit.
--
-- totals_board holds all columns of totals, so where statistics are missing (a fresh table, a crash) the planner would
-- like to use it for one user's totals too, and would read a whole period of all users. Hence its first column is the
-- expression lang || '', which only those who read a board write.

-- name: LeaderboardAmong :many
-- A page of the board that some users make among themselves, and the place of one of them: all in one statement, so that who is
-- on off has no place from the moment of the change. The page starts after a place, or around the user; it has one row more than
-- asked for if more follow. previous_on is NULL where there is no span before. Facts are read for what is shown alone.
WITH standing AS MATERIALIZED (
    SELECT t.user_id, t.seconds, rank() OVER (ORDER BY t.seconds DESC) AS rank,
        row_number() OVER (ORDER BY t.seconds DESC, t.user_id DESC) AS place
    FROM totals t
    JOIN users u ON u.id = t.user_id
    WHERE t.user_id = ANY (sqlc.arg(user_ids)::uuid[])
      AND t.period = sqlc.arg(period) AND t.starts_on = sqlc.arg(starts_on)::date AND t.lang = sqlc.arg(lang)::text
      AND t.seconds > 0 AND u.privacy <> 'off'
), previous AS MATERIALIZED (
    SELECT t.user_id, rank() OVER (ORDER BY t.seconds DESC) AS rank
    FROM totals t
    JOIN users u ON u.id = t.user_id
    WHERE t.user_id = ANY (sqlc.arg(user_ids)::uuid[])
      AND t.period = sqlc.arg(period) AND t.starts_on = sqlc.narg(previous_on)::date AND t.lang = sqlc.arg(lang)::text
      AND t.seconds > 0 AND u.privacy <> 'off'
), counted AS (
    SELECT count(*) AS places, max(s.place) FILTER (WHERE s.user_id = sqlc.arg(me)::uuid) AS mine,
        count(*) FILTER (WHERE (s.seconds, s.user_id) >= (sqlc.arg(seconds)::bigint, sqlc.arg(after_id)::uuid)) AS before
    FROM standing s
), page AS (
    SELECT c.mine, CASE
        WHEN NOT sqlc.arg(around)::boolean THEN c.before
        WHEN c.mine IS NOT NULL -- else there is no page; least would pass over the NULL
        THEN greatest(0, least(c.mine - 1 - sqlc.arg(max_rows)::bigint / 2, c.places - sqlc.arg(max_rows)::bigint))
        END AS start FROM counted c
), shown AS (
    SELECT s.user_id, s.seconds, s.rank, s.place,
        (s.place > p.start AND s.place <= p.start + sqlc.arg(max_rows)::bigint + 1) IS TRUE AS in_page
    FROM standing s CROSS JOIN page p
    WHERE s.place > p.start AND s.place <= p.start + sqlc.arg(max_rows)::bigint + 1 OR s.place = p.mine
)
SELECT s.user_id, s.seconds, s.rank::bigint AS rank, coalesce(v.rank, 0)::bigint AS previous_rank, s.in_page::boolean AS in_page,
    u.version, u.handle, coalesce(u.avatar_url, '')::text AS avatar_url, u.streak_first_on, u.streak_last_on,
    coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = u.id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone,
    coalesce((SELECT l.lang FROM totals l
        WHERE l.user_id = s.user_id AND l.period = sqlc.arg(period) AND l.starts_on = sqlc.arg(starts_on)::date AND l.seconds > 0
          AND (l.lang IN (SELECT unnest(sqlc.arg(board_langs)::text[]))) IS TRUE
        ORDER BY l.seconds DESC, l.lang LIMIT 1), '')::text AS top_lang
FROM shown s
JOIN users u ON u.id = s.user_id
LEFT JOIN previous v ON v.user_id = s.user_id
ORDER BY s.place;

-- name: LeaderboardCountBefore :one
-- How many places are before one, and how many users have more seconds.
SELECT count(*) FILTER (WHERE t.seconds > sqlc.arg(seconds)::bigint)::bigint AS above, count(*)::bigint AS before
FROM totals t
WHERE t.period = sqlc.arg(period) AND t.starts_on = sqlc.arg(starts_on) AND t.lang || '' = sqlc.arg(lang)::text
  AND (t.seconds, t.user_id) > (sqlc.arg(seconds)::bigint, sqlc.arg(user_id)::uuid)
  AND NOT EXISTS (SELECT FROM users u WHERE u.id = t.user_id AND u.privacy = 'off');

-- name: LeaderboardGet :one
-- One user's row, if the user is shown and has seconds.
SELECT t.user_id, t.seconds, u.version, u.handle, coalesce(u.avatar_url, '')::text AS avatar_url, u.streak_first_on, u.streak_last_on,
    coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = u.id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone,
    coalesce((SELECT l.lang FROM totals l
        WHERE l.user_id = t.user_id AND l.period = t.period AND l.starts_on = t.starts_on AND l.seconds > 0
          AND (l.lang IN (SELECT unnest(sqlc.arg(board_langs)::text[]))) IS TRUE
        ORDER BY l.seconds DESC, l.lang LIMIT 1), '')::text AS top_lang
FROM totals t
JOIN users u ON u.id = t.user_id
WHERE t.user_id = sqlc.arg(user_id) AND t.period = sqlc.arg(period) AND t.starts_on = sqlc.arg(starts_on) AND t.lang = sqlc.arg(lang)
  AND t.seconds > 0 AND u.privacy <> 'off';

-- name: LeaderboardLanguagesWithTotals :many
-- Which of the languages have totals in which of the spans: one probe of the index for each language, whatever is stored, and
-- one for each pair of a span and a language that anybody ever used, for who has a total of a span has one of all time.
-- The LIMIT keeps the planner from turning the probes into one scan of all totals; the order, which only the index has,
-- from making each of them a scan that stops at the first match, for most languages have none.
WITH used AS MATERIALIZED (
    SELECT l.lang
    FROM (SELECT unnest(sqlc.arg(langs)::text[]) AS lang) l
    CROSS JOIN LATERAL (
        SELECT FROM totals t
        WHERE t.period = 'alltime' AND t.starts_on = '1970-01-01' AND t.lang || '' = l.lang AND t.seconds > 0
        ORDER BY t.seconds DESC, t.user_id DESC LIMIT 1
    ) probe
)
SELECT s.period::text AS period, s.starts_on::date AS starts_on, l.lang::text AS lang
FROM (SELECT unnest(sqlc.arg(periods)::text[]) AS period, unnest(sqlc.arg(starts)::date[]) AS starts_on) s
CROSS JOIN used l
CROSS JOIN LATERAL (
    SELECT FROM totals t
    WHERE t.period = s.period AND t.starts_on = s.starts_on AND t.lang || '' = l.lang AND t.seconds > 0
    ORDER BY t.seconds DESC, t.user_id DESC LIMIT 1
) probe;

-- name: LeaderboardPageAbove :many
-- The rows before a place, nearest first.
SELECT p.user_id, p.seconds, p.version, p.handle, p.avatar_url, p.streak_first_on, p.streak_last_on,
    coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = p.user_id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone,
    coalesce((SELECT l.lang FROM totals l
        WHERE l.user_id = p.user_id AND l.period = p.period AND l.starts_on = p.starts_on AND l.seconds > 0
          AND (l.lang IN (SELECT unnest(sqlc.arg(board_langs)::text[]))) IS TRUE
        ORDER BY l.seconds DESC, l.lang LIMIT 1), '')::text AS top_lang
FROM (
    SELECT t.user_id, t.period, t.starts_on, t.seconds, u.version, u.handle, coalesce(u.avatar_url, '')::text AS avatar_url,
        u.streak_first_on, u.streak_last_on
    FROM totals t
    JOIN users u ON u.id = t.user_id
    WHERE t.period = sqlc.arg(period) AND t.starts_on = sqlc.arg(starts_on) AND t.lang || '' = sqlc.arg(lang)::text
      AND (t.seconds, t.user_id) > (sqlc.arg(seconds)::bigint, sqlc.arg(user_id)::uuid) AND u.privacy <> 'off'
    ORDER BY t.seconds, t.user_id
    LIMIT sqlc.arg(max_rows)
) p
ORDER BY p.seconds, p.user_id;

-- name: LeaderboardPageBelow :many
-- The rows after a place, nearest first. Boards are built from this as well, so that what a build writes and what a page
-- from Postgres shows are one thing.
SELECT p.user_id, p.seconds, p.version, p.handle, p.avatar_url, p.streak_first_on, p.streak_last_on,
    coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = p.user_id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone,
    coalesce((SELECT l.lang FROM totals l
        WHERE l.user_id = p.user_id AND l.period = p.period AND l.starts_on = p.starts_on AND l.seconds > 0
          AND (l.lang IN (SELECT unnest(sqlc.arg(board_langs)::text[]))) IS TRUE
        ORDER BY l.seconds DESC, l.lang LIMIT 1), '')::text AS top_lang
FROM (
    SELECT t.user_id, t.period, t.starts_on, t.seconds, u.version, u.handle, coalesce(u.avatar_url, '')::text AS avatar_url,
        u.streak_first_on, u.streak_last_on
    FROM totals t
    JOIN users u ON u.id = t.user_id
    WHERE t.period = sqlc.arg(period) AND t.starts_on = sqlc.arg(starts_on) AND t.lang || '' = sqlc.arg(lang)::text
      AND (t.seconds, t.user_id) < (sqlc.arg(seconds)::bigint, sqlc.arg(user_id)::uuid) AND t.seconds > 0 AND u.privacy <> 'off'
    ORDER BY t.seconds DESC, t.user_id DESC
    LIMIT sqlc.arg(max_rows)
) p
ORDER BY p.seconds DESC, p.user_id DESC;

-- name: LeaderboardRanks :many
-- The ranks of some users. Their scores cut the board into steps, and the board is counted by step in one pass down to
-- the lowest of them, however many are asked for. width_bucket says how many of the bounds are less than a score; for
-- floats, which are exact for all seconds there can be, it is three times as fast as for others.
WITH mine AS (
    SELECT t.user_id, t.seconds FROM totals t JOIN users u ON u.id = t.user_id
    WHERE t.user_id = ANY (sqlc.arg(user_ids)::uuid[])
      AND t.period = sqlc.arg(period) AND t.starts_on = sqlc.arg(starts_on) AND t.lang = sqlc.arg(lang)::text
      AND t.seconds > 0 AND u.privacy <> 'off'
), steps AS (
    SELECT array_agg(DISTINCT m.seconds::float8 ORDER BY m.seconds::float8) AS bounds, min(m.seconds) AS lowest FROM mine m
), counted AS MATERIALIZED (
    SELECT width_bucket((t.seconds - 1)::float8, (SELECT s.bounds FROM steps s)) AS step, count(*) AS n
    FROM totals t
    WHERE t.period = sqlc.arg(period) AND t.starts_on = sqlc.arg(starts_on) AND t.lang || '' = sqlc.arg(lang)::text
      AND t.seconds > (SELECT s.lowest FROM steps s)
      AND NOT EXISTS (SELECT FROM users u WHERE u.id = t.user_id AND u.privacy = 'off')
    GROUP BY 1
)
SELECT m.user_id, (1 + coalesce((SELECT sum(c.n) FROM counted c
    WHERE c.step > width_bucket((m.seconds - 1)::float8, (SELECT s.bounds FROM steps s))), 0))::bigint AS rank
FROM mine m;
