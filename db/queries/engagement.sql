-- Kudos, comments and shares of sessions, and the counts of them that are cached beside each session.
--
-- The order of locks, the same everywhere: the user's advisory lock, the session's row, the row of its counters (several
-- in the order of their keys), then the rows of counter_deltas, kudos and comments. Nobody changes or deletes a delta without
-- holding the counters that it will be added to; adding one needs no lock.

-- name: EngagementAddShares :many
-- Adds shares to the sessions that the ids lead to now: an absorbed one's go to its heir. What is not in the answer does not
-- exist any more. added = false: the counters went away while this waited for them, or were never made: a later statement
-- sees what became of them.
WITH given AS (
    SELECT unnest(sqlc.arg(session_ids)::uuid[]) AS id, unnest(sqlc.arg(counts)::bigint[]) AS n
), target AS (
    SELECT g.id, g.n, s.user_id, s.id AS session_id FROM given g
    JOIN sessions s ON s.id = coalesce((SELECT a.heir FROM session_aliases a WHERE a.id = g.id), g.id)
), locked AS MATERIALIZED (
    SELECT c.user_id, c.session_id FROM session_counters c
    WHERE (c.user_id, c.session_id) IN (SELECT t.user_id, t.session_id FROM target t)
    ORDER BY c.user_id, c.session_id
    FOR NO KEY UPDATE
), added AS (
    UPDATE session_counters c SET shares = c.shares + t.n
    FROM (SELECT x.user_id, x.session_id, sum(x.n)::bigint AS n FROM target x
          JOIN locked l ON l.user_id = x.user_id AND l.session_id = x.session_id
          GROUP BY x.user_id, x.session_id) t
    WHERE c.user_id = t.user_id AND c.session_id = t.session_id
    RETURNING c.session_id
)
SELECT t.id::uuid AS id, (t.session_id IN (SELECT d.session_id FROM added d))::boolean AS added FROM target t;

-- name: EngagementComment :one
-- Runs after the author's lock, as its own statement. No row: there is no such session now. session_seen says whether it
-- was there when the statement began, so that it is worth another look.
WITH target AS MATERIALIZED (
    SELECT s.user_id, s.id FROM sessions s
    WHERE s.id = coalesce((SELECT a.heir FROM session_aliases a WHERE a.id = sqlc.arg(session_id)), sqlc.arg(session_id)::uuid)
    FOR KEY SHARE
), made AS (
    INSERT INTO comments (id, owner_id, session_id, author_id, body)
    SELECT sqlc.arg(id), t.user_id, t.id, sqlc.arg(author_id), sqlc.arg(body) FROM target t
    JOIN users o ON o.id = t.user_id AND o.privacy <> 'off'
    JOIN users g ON g.id = sqlc.arg(author_id) AND g.privacy <> 'off'
    RETURNING owner_id, session_id, created_at
), delta AS (
    INSERT INTO counter_deltas (owner_id, session_id, comments) SELECT m.owner_id, m.session_id, 1 FROM made m
)
SELECT coalesce(t.id, '00000000-0000-0000-0000-000000000000')::uuid AS session_id, (t.id IS NULL)::boolean AS vanished,
    (o.privacy IS NULL OR o.privacy = 'off')::boolean AS owner_off, (g.privacy IS NULL OR g.privacy = 'off')::boolean AS author_off,
    (seen.user_id = sqlc.arg(author_id))::boolean AS own,
    coalesce(g.handle, '')::text AS handle, g.avatar_url, coalesce(m.created_at, 'epoch')::timestamptz AS created_at,
    (coalesce((SELECT c.comments FROM session_counters c WHERE c.user_id = t.user_id AND c.session_id = t.id), 0)
     + coalesce((SELECT sum(d.comments) FROM counter_deltas d WHERE d.owner_id = t.user_id AND d.session_id = t.id), 0)
     + (SELECT count(*) FROM made))::bigint AS comments
FROM sessions seen
LEFT JOIN target t ON t.id = seen.id
LEFT JOIN made m ON m.session_id = t.id
LEFT JOIN users o ON o.id = seen.user_id
LEFT JOIN users g ON g.id = sqlc.arg(author_id)
WHERE seen.id = coalesce((SELECT a.heir FROM session_aliases a WHERE a.id = sqlc.arg(session_id)), sqlc.arg(session_id)::uuid);

-- name: EngagementDeleteComment :one
-- The author's, or the owner's of the session. No row: there is no such comment. The delta goes where the comment is when it
-- goes: a merge may have moved it a moment ago.
WITH gone AS (
    DELETE FROM comments c
    WHERE c.id = sqlc.arg(id) AND (c.author_id = sqlc.arg(user_id) OR c.owner_id = sqlc.arg(user_id))
    RETURNING c.owner_id, c.session_id
), delta AS (
    INSERT INTO counter_deltas (owner_id, session_id, comments) SELECT g.owner_id, g.session_id, -1 FROM gone g
)
SELECT coalesce((SELECT g.session_id FROM gone g), c.session_id)::uuid AS session_id, EXISTS (SELECT FROM gone)::boolean AS deleted,
    (c.author_id = sqlc.arg(user_id) OR c.owner_id = sqlc.arg(user_id))::boolean AS allowed,
    c.owner_id, o.privacy AS owner_privacy, c.author_id, a.privacy AS author_privacy
FROM comments c
JOIN users o ON o.id = c.owner_id
JOIN users a ON a.id = c.author_id
WHERE c.id = sqlc.arg(id);

-- name: EngagementDeleteSessions :exec
-- Everything that hangs on sessions that are deleted, after their counters were locked.
WITH counters AS (
    DELETE FROM session_counters c WHERE c.user_id = sqlc.arg(user_id) AND c.session_id = ANY (sqlc.arg(session_ids)::uuid[])
), given AS (
    DELETE FROM kudos k WHERE k.owner_id = sqlc.arg(user_id) AND k.session_id = ANY (sqlc.arg(session_ids)::uuid[])
)
DELETE FROM comments m WHERE m.owner_id = sqlc.arg(user_id) AND m.session_id = ANY (sqlc.arg(session_ids)::uuid[]);

-- name: EngagementDeleteDeltas :exec
-- What was not counted yet of the sessions of a user, or of some. It runs by itself after kudos and comments are gone: whoever
-- takes one back leaves a delta in the same transaction, which the statement that waited for that row does not see.
DELETE FROM counter_deltas d
WHERE d.owner_id = sqlc.arg(user_id)
  AND (sqlc.narg(session_ids)::uuid[] IS NULL OR d.session_id = ANY (sqlc.narg(session_ids)::uuid[]));

-- name: EngagementDeleteStray :exec
-- Deltas of sessions that do not exist any more, under no id.
DELETE FROM counter_deltas d
WHERE d.session_id = ANY (sqlc.arg(session_ids)::uuid[])
  AND NOT EXISTS (SELECT FROM sessions s WHERE s.id = d.session_id)
  AND NOT EXISTS (SELECT FROM session_aliases a WHERE a.id = d.session_id);

-- name: EngagementDeleteUserOwn :exec
-- What hangs on a deleted user's own sessions, after the counters were locked.
WITH counters AS (
    DELETE FROM session_counters c WHERE c.user_id = sqlc.arg(user_id)
), given AS (
    DELETE FROM kudos k WHERE k.owner_id = sqlc.arg(user_id)
)
DELETE FROM comments m WHERE m.owner_id = sqlc.arg(user_id);

-- name: EngagementDeleteUserGiven :many
-- Takes a deleted user's kudos and comments off the sessions of others. complete = false: a merge moved a row while this
-- waited for it, and a later statement finds it at its new place. The rows are locked in the order of their keys.
WITH k AS MATERIALIZED (
    SELECT x.owner_id, x.session_id FROM kudos x WHERE x.user_id = sqlc.arg(user_id)
    ORDER BY x.owner_id, x.session_id FOR UPDATE
), taken AS (
    DELETE FROM kudos d USING k WHERE d.owner_id = k.owner_id AND d.session_id = k.session_id AND d.user_id = sqlc.arg(user_id)
    RETURNING d.owner_id, d.session_id, 1 AS kudos, 0 AS comments
), removed AS (
    DELETE FROM comments m WHERE m.author_id = sqlc.arg(user_id)
    RETURNING m.owner_id, m.session_id, 0 AS kudos, 1 AS comments
), deltas AS (
    INSERT INTO counter_deltas (owner_id, session_id, kudos, comments)
    SELECT a.owner_id, a.session_id, -sum(a.kudos)::integer, -sum(a.comments)::integer
    FROM (SELECT * FROM taken UNION ALL SELECT * FROM removed) a
    GROUP BY a.owner_id, a.session_id
    RETURNING session_id
)
SELECT NULL::uuid AS session_id,
    ((SELECT count(*) FROM kudos s WHERE s.user_id = sqlc.arg(user_id)) = (SELECT count(*) FROM taken))::boolean AS complete
UNION ALL
SELECT d.session_id, true FROM deltas d;

-- name: EngagementFlushDeltas :many
-- Moves what is pending of the sessions that the ids lead to now into their counters. A delta is used up only together with
-- the counters that are locked for it. What is not in the answer does not exist any more. flushed = false: as added above.
WITH given AS (
    SELECT DISTINCT unnest(sqlc.arg(session_ids)::uuid[]) AS id
), target AS (
    SELECT g.id, s.user_id, s.id AS session_id FROM given g
    JOIN sessions s ON s.id = coalesce((SELECT a.heir FROM session_aliases a WHERE a.id = g.id), g.id)
), locked AS MATERIALIZED (
    SELECT c.user_id, c.session_id FROM session_counters c
    WHERE (c.user_id, c.session_id) IN (SELECT t.user_id, t.session_id FROM target t)
    ORDER BY c.user_id, c.session_id
    FOR NO KEY UPDATE
), leads AS (
    SELECT t.user_id, t.id AS from_id, t.session_id FROM target t
    JOIN locked k ON k.user_id = t.user_id AND k.session_id = t.session_id
    UNION
    SELECT l.user_id, l.session_id, l.session_id FROM locked l
), used AS (
    DELETE FROM counter_deltas d USING leads l
    WHERE d.owner_id = l.user_id AND d.session_id = l.from_id
    RETURNING d.owner_id, d.session_id, d.kudos, d.comments
), flushed AS (
    UPDATE session_counters c SET kudos = c.kudos + u.kudos, comments = c.comments + u.comments
    FROM (SELECT l.user_id, l.session_id, sum(x.kudos)::bigint AS kudos, sum(x.comments)::bigint AS comments FROM used x
          JOIN leads l ON l.user_id = x.owner_id AND l.from_id = x.session_id
          GROUP BY l.user_id, l.session_id) u
    WHERE c.user_id = u.user_id AND c.session_id = u.session_id
)
SELECT t.id::uuid AS id, (t.session_id IN (SELECT l.session_id FROM locked l))::boolean AS flushed FROM target t;

-- name: EngagementGetSession :one
-- A session as others see it: whose it is, and how many comments it has, those that are pending included.
SELECT s.user_id, s.id, o.privacy,
    (coalesce((SELECT c.comments FROM session_counters c WHERE c.user_id = s.user_id AND c.session_id = s.id), 0)
     + coalesce((SELECT sum(d.comments) FROM counter_deltas d WHERE d.owner_id = s.user_id AND d.session_id = s.id), 0))::bigint AS comments
FROM sessions s
JOIN users o ON o.id = s.user_id
WHERE s.id = coalesce((SELECT a.heir FROM session_aliases a WHERE a.id = sqlc.arg(session_id)), sqlc.arg(session_id)::uuid);

-- name: EngagementInsertCounters :exec
-- The counters of sessions, made with them.
INSERT INTO session_counters (user_id, session_id)
SELECT sqlc.arg(user_id), unnest(sqlc.arg(session_ids)::uuid[])
ON CONFLICT DO NOTHING;

-- name: EngagementInsertMissingCounters :exec
-- The counters of sessions that were made without, by a release from before there were any.
INSERT INTO session_counters (user_id, session_id)
SELECT s.user_id, s.id FROM sessions s WHERE s.id IN (
    SELECT coalesce((SELECT a.heir FROM session_aliases a WHERE a.id = g.id), g.id)
    FROM (SELECT unnest(sqlc.arg(session_ids)::uuid[]) AS id) g)
  AND NOT EXISTS (SELECT FROM session_counters c WHERE c.user_id = s.user_id AND c.session_id = s.id)
ORDER BY s.user_id, s.id
FOR KEY SHARE
ON CONFLICT DO NOTHING;

-- name: EngagementKudos :one
-- Gives kudos, or takes them back. Runs after the giver's lock, as its own statement. Rows and columns as in
-- EngagementComment; given says whether the giver has given kudos after this.
WITH target AS MATERIALIZED (
    SELECT s.user_id, s.id FROM sessions s
    WHERE s.id = coalesce((SELECT a.heir FROM session_aliases a WHERE a.id = sqlc.arg(session_id)), sqlc.arg(session_id)::uuid)
    FOR KEY SHARE
), allowed AS (
    SELECT t.user_id, t.id FROM target t
    JOIN users o ON o.id = t.user_id AND o.privacy <> 'off'
    JOIN users g ON g.id = sqlc.arg(user_id) AND (g.privacy <> 'off' OR NOT sqlc.arg(give)::boolean)
    WHERE t.user_id <> sqlc.arg(user_id)
), made AS (
    INSERT INTO kudos (owner_id, session_id, user_id)
    SELECT a.user_id, a.id, sqlc.arg(user_id) FROM allowed a WHERE sqlc.arg(give)
    ON CONFLICT DO NOTHING
    RETURNING owner_id, session_id, 1 AS n
), taken AS (
    DELETE FROM kudos k USING allowed a
    WHERE k.owner_id = a.user_id AND k.session_id = a.id AND k.user_id = sqlc.arg(user_id) AND NOT sqlc.arg(give)
    RETURNING k.owner_id, k.session_id, -1 AS n
), changed AS (
    SELECT * FROM made UNION ALL SELECT * FROM taken
), delta AS (
    INSERT INTO counter_deltas (owner_id, session_id, kudos) SELECT c.owner_id, c.session_id, c.n FROM changed c
)
SELECT coalesce(t.id, '00000000-0000-0000-0000-000000000000')::uuid AS session_id, (t.id IS NULL)::boolean AS vanished,
    (o.privacy IS NULL OR o.privacy = 'off')::boolean AS owner_off, (g.privacy IS NULL OR g.privacy = 'off')::boolean AS giver_off,
    (seen.user_id = sqlc.arg(user_id))::boolean AS own, EXISTS (SELECT FROM changed)::boolean AS changed,
    (coalesce((SELECT c.kudos FROM session_counters c WHERE c.user_id = t.user_id AND c.session_id = t.id), 0)
     + coalesce((SELECT sum(d.kudos) FROM counter_deltas d WHERE d.owner_id = t.user_id AND d.session_id = t.id), 0)
     + coalesce((SELECT sum(c.n) FROM changed c), 0))::bigint AS kudos
FROM sessions seen
LEFT JOIN target t ON t.id = seen.id
LEFT JOIN users o ON o.id = seen.user_id
LEFT JOIN users g ON g.id = sqlc.arg(user_id)
WHERE seen.id = coalesce((SELECT a.heir FROM session_aliases a WHERE a.id = sqlc.arg(session_id)), sqlc.arg(session_id)::uuid);

-- name: EngagementListComments :many
-- Oldest first, strictly after (after_at, after_id) in that order. Who went off is shown to nobody else.
SELECT c.id, c.body, c.created_at, a.handle, a.avatar_url FROM comments c
JOIN users a ON a.id = c.author_id
WHERE c.owner_id = sqlc.arg(owner_id) AND c.session_id = sqlc.arg(session_id)
  AND (c.created_at, c.id) > (sqlc.arg(after_at)::timestamptz, sqlc.arg(after_id)::uuid)
  AND (a.privacy <> 'off' OR a.id = sqlc.arg(viewer_id))
ORDER BY c.created_at, c.id
LIMIT sqlc.arg(max_rows);

-- name: EngagementListStale :many
-- Sessions with deltas that nobody has flushed for a while.
SELECT DISTINCT session_id FROM counter_deltas
WHERE at < statement_timestamp() - sqlc.arg(age_s)::bigint * interval '1 second'
LIMIT sqlc.arg(max_rows);

-- name: EngagementLockCounters :exec
SELECT 1 FROM session_counters
WHERE user_id = sqlc.arg(user_id) AND session_id = ANY (sqlc.arg(session_ids)::uuid[])
ORDER BY session_id FOR UPDATE;

-- name: EngagementLockUser :exec
-- Of who changes something in a user's name. Mode changes and deletes of the user wait for it, alone: what is read by later
-- statements holds until this transaction ends.
SELECT pg_advisory_xact_lock_shared($1);

-- name: EngagementLockUserCounters :exec
SELECT 1 FROM session_counters WHERE user_id = sqlc.arg(user_id) ORDER BY session_id FOR UPDATE;

-- name: EngagementMove :exec
-- What hangs on absorbed sessions goes to their heir, after the counters of all of them were locked. Who gave kudos to
-- several of them has given one to the heir: the counter follows exactly, whatever is being given meanwhile. A delta of an
-- absorbed session that comes to light later is found by the alias.
WITH counters AS (
    DELETE FROM session_counters c WHERE c.user_id = sqlc.arg(user_id) AND c.session_id = ANY (sqlc.arg(absorbed)::uuid[])
    RETURNING c.views, c.shares, c.kudos, c.comments
), deltas AS (
    DELETE FROM counter_deltas d WHERE d.owner_id = sqlc.arg(user_id) AND d.session_id = ANY (sqlc.arg(absorbed)::uuid[])
    RETURNING d.kudos, d.comments
), taken AS (
    DELETE FROM kudos k WHERE k.owner_id = sqlc.arg(user_id) AND k.session_id = ANY (sqlc.arg(absorbed)::uuid[])
    RETURNING k.user_id, k.created_at
), given AS (
    INSERT INTO kudos (owner_id, session_id, user_id, created_at)
    SELECT sqlc.arg(user_id), sqlc.arg(heir)::uuid, t.user_id, min(t.created_at) FROM taken t GROUP BY t.user_id ORDER BY t.user_id
    ON CONFLICT DO NOTHING
    RETURNING user_id
), moved AS (
    UPDATE comments m SET session_id = sqlc.arg(heir)
    WHERE m.owner_id = sqlc.arg(user_id) AND m.session_id = ANY (sqlc.arg(absorbed)::uuid[])
)
UPDATE session_counters h
SET views = h.views + (SELECT coalesce(sum(c.views), 0) FROM counters c),
    shares = h.shares + (SELECT coalesce(sum(c.shares), 0) FROM counters c),
    kudos = h.kudos + (SELECT coalesce(sum(c.kudos), 0) FROM counters c) + (SELECT coalesce(sum(d.kudos), 0) FROM deltas d)
        + (SELECT count(*) FROM given) - (SELECT count(*) FROM taken),
    comments = h.comments + (SELECT coalesce(sum(c.comments), 0) FROM counters c) + (SELECT coalesce(sum(d.comments), 0) FROM deltas d)
WHERE h.user_id = sqlc.arg(user_id) AND h.session_id = sqlc.arg(heir);
