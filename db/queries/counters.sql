-- Comparing the cached counts of kudos and comments with their rows. One statement reads all of it, so that it is of one
-- snapshot: a row and its delta are there together or not at all.

-- name: CountersCheck :many
-- Of a page of sessions those whose counters are missing or do not add up, with what the counters should say.
SELECT s.user_id, s.id AS session_id, (c.user_id IS NULL)::boolean AS missing,
    (k.n - p.kudos - coalesce(c.kudos, 0))::bigint AS kudos_off, (m.n - p.comments - coalesce(c.comments, 0))::bigint AS comments_off
FROM (SELECT unnest(sqlc.arg(session_ids)::uuid[]) AS id) g
JOIN sessions s ON s.id = g.id
LEFT JOIN session_counters c ON c.user_id = s.user_id AND c.session_id = s.id
CROSS JOIN LATERAL (SELECT count(*) AS n FROM kudos x WHERE x.owner_id = s.user_id AND x.session_id = s.id) k
CROSS JOIN LATERAL (SELECT count(*) AS n FROM comments x WHERE x.owner_id = s.user_id AND x.session_id = s.id) m
CROSS JOIN LATERAL (
    SELECT coalesce(sum(x.kudos), 0) AS kudos, coalesce(sum(x.comments), 0) AS comments FROM counter_deltas x
    WHERE x.owner_id = s.user_id AND (x.session_id = s.id
        OR x.session_id IN (SELECT a.id FROM session_aliases a WHERE a.user_id = s.user_id AND a.heir = s.id))
) p
WHERE c.user_id IS NULL OR k.n <> p.kudos + c.kudos OR m.n <> p.comments + c.comments;

-- name: CountersCount :one
SELECT count(*)::bigint FROM sessions;

-- name: CountersHeal :execrows
-- Runs after the counters were locked by an earlier statement: no flush and no merge is under way, and what is given or
-- taken back meanwhile brings its delta along.
UPDATE session_counters c
SET kudos = (SELECT count(*) FROM kudos x WHERE x.owner_id = c.user_id AND x.session_id = c.session_id)
        - (SELECT coalesce(sum(x.kudos), 0) FROM counter_deltas x WHERE x.owner_id = c.user_id AND (x.session_id = c.session_id
            OR x.session_id IN (SELECT a.id FROM session_aliases a WHERE a.user_id = c.user_id AND a.heir = c.session_id))),
    comments = (SELECT count(*) FROM comments x WHERE x.owner_id = c.user_id AND x.session_id = c.session_id)
        - (SELECT coalesce(sum(x.comments), 0) FROM counter_deltas x WHERE x.owner_id = c.user_id AND (x.session_id = c.session_id
            OR x.session_id IN (SELECT a.id FROM session_aliases a WHERE a.user_id = c.user_id AND a.heir = c.session_id)))
WHERE c.user_id = sqlc.arg(user_id) AND c.session_id = sqlc.arg(session_id);

-- name: CountersList :many
SELECT id FROM sessions WHERE id > sqlc.arg(after) ORDER BY id LIMIT sqlc.arg(max_rows);
