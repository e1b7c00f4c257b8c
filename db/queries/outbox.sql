-- Who is pending, what is published of them, and how it is cleared.

-- name: OutboxBacklog :one
-- How many users are pending, and for how long the first of them has been.
SELECT count(*)::bigint AS pending, coalesce(extract(epoch FROM now() - min(pending_at)), 0)::float8 AS oldest_s FROM outbox;

-- name: OutboxDeletePublished :exec
-- A row goes only at the version that was published. Rows are locked in order and those that others hold are left: a
-- finalize that holds one is about to raise its version anyway.
DELETE FROM outbox o
USING (
    SELECT q.user_id, q.version FROM outbox q
    JOIN (SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id, unnest(sqlc.arg(versions)::bigint[]) AS version) p
      ON p.user_id = q.user_id AND p.version = q.version
    ORDER BY q.user_id
    FOR UPDATE OF q SKIP LOCKED
) d
WHERE o.user_id = d.user_id AND o.version = d.version;

-- name: OutboxDeleteZeroTotals :exec
-- Totals whose removal was published, that is: which are zero at the published version. Version and totals are seen in one
-- snapshot, so a total that became zero later stays. Both rows are locked, so that both conditions hold now: a total that
-- was more than zero for a while since has another version. What others hold is skipped and goes with the next publish.
-- Zeros come in bursts and go, so that statistics know of none, and the index of zeros then looks like the shortest way to
-- anything. So they are looked up by user, and deleted by their key; the sum keeps that index out of it.
WITH due AS MATERIALIZED (
    SELECT z.user_id, z.period, z.starts_on, z.lang
    FROM (
        SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id, unnest(sqlc.arg(versions)::bigint[]) AS version ORDER BY 1
    ) p
    CROSS JOIN LATERAL (
        SELECT u.id FROM users u WHERE u.id = p.user_id AND u.version = p.version FOR SHARE SKIP LOCKED
    ) u
    CROSS JOIN LATERAL (
        SELECT x.user_id, x.period, x.starts_on, x.lang FROM totals x WHERE x.user_id = u.id AND x.seconds = 0
        ORDER BY x.period, x.starts_on, x.lang FOR UPDATE SKIP LOCKED
    ) z
)
DELETE FROM totals t USING due d
WHERE t.user_id = d.user_id AND t.period = d.period AND t.starts_on = d.starts_on AND t.lang = d.lang AND t.seconds + 0 = 0;

-- name: OutboxListPending :many
-- Pending users in the order of their ids.
SELECT user_id FROM outbox WHERE user_id > sqlc.arg(after) ORDER BY user_id LIMIT sqlc.arg(max_rows);

-- name: OutboxReadMany :many
-- Everything that is published of pending users, read in this one statement so that it belongs together. A user who no
-- longer exists has no row in users and no totals. The arrays hold one element for each total of the given spans, in all
-- languages or in one of the given ones.
SELECT o.user_id, coalesce(u.version, o.version)::bigint AS version,
    (u.id IS NULL)::boolean AS gone, coalesce(u.privacy <> 'off', false)::boolean AS shown,
    coalesce(u.handle, '')::text AS handle, coalesce(u.avatar_url, '')::text AS avatar_url, u.streak_first_on, u.streak_last_on,
    coalesce((SELECT z.zone FROM user_zones z WHERE z.user_id = o.user_id ORDER BY z.from_s DESC LIMIT 1), 'UTC')::text AS zone,
    coalesce(t.periods, '{}')::text[] AS periods, coalesce(t.starts, '{}')::date[] AS starts,
    coalesce(t.langs, '{}')::text[] AS langs, coalesce(t.seconds, '{}')::bigint[] AS seconds
FROM outbox o
LEFT JOIN users u ON u.id = o.user_id
CROSS JOIN LATERAL (
    SELECT array_agg(a.period) AS periods, array_agg(a.starts_on) AS starts, array_agg(a.lang) AS langs,
        array_agg(a.seconds) AS seconds
    FROM (SELECT unnest(sqlc.arg(periods)::text[]) AS period, unnest(sqlc.arg(starts)::date[]) AS starts_on) s
    JOIN totals a ON a.user_id = o.user_id AND a.period = s.period AND a.starts_on = s.starts_on
    WHERE a.lang = '' OR a.lang IN (SELECT unnest(sqlc.arg(board_langs)::text[]))
) t
WHERE o.user_id = ANY (sqlc.arg(user_ids)::uuid[])
ORDER BY o.user_id;

-- name: OutboxUpsert :exec
-- pending_at stays: it says since when the boards have been behind.
INSERT INTO outbox (user_id, version) VALUES (sqlc.arg(user_id), sqlc.arg(version))
ON CONFLICT (user_id) DO UPDATE SET version = greatest(outbox.version, excluded.version);
