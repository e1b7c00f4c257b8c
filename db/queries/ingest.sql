-- The storing transaction: these statements are sent together, in this order, as one pipeline.

-- name: IngestLockUsers :one
-- Takes each user's shared ingest lock if it is free at once, and leaves the positions of those that got it where the
-- later statements of this transaction find them. It must be a statement of its own: the later ones take a snapshot that
-- is not older than the locks, so the modes that they read hold until the transaction ends. The horizon is read here
-- once, so that what is refused and what is reported as refused are the same.
SELECT set_config('commma.admitted', coalesce(string_agg(k.pos::text, ',' ), ''), true)::text AS admitted,
       set_config('commma.horizon', (SELECT h.from_s FROM horizon h)::text, true)::bigint AS horizon_s
FROM (SELECT generate_subscripts(sqlc.arg(locks)::bigint[], 1) AS pos, unnest(sqlc.arg(locks)::bigint[]) AS lock) k
WHERE pg_try_advisory_xact_lock_shared(k.lock);

-- name: IngestGetUsers :many
-- Who of the admitted exists, and in which mode: this, not any cache, decides what is stored.
SELECT p.pos::int AS pos, u.privacy, u.version
FROM (SELECT generate_subscripts(sqlc.arg(user_ids)::uuid[], 1) AS pos, unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) p
JOIN users u ON u.id = p.user_id
WHERE p.pos = ANY (string_to_array(nullif(current_setting('commma.admitted'), ''), ',')::int[]);

-- name: IngestInsertEvents :execrows
-- Appends the events of the admitted users who exist and are not off, stripped by the mode that stands now.
WITH admitted AS MATERIALIZED (
    SELECT p.pos, u.id, u.privacy = 'full' AS is_full
    FROM (SELECT generate_subscripts(sqlc.arg(user_ids)::uuid[], 1) AS pos, unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) p
    JOIN users u ON u.id = p.user_id
    WHERE u.privacy <> 'off'
      AND p.pos = ANY (string_to_array(nullif(current_setting('commma.admitted'), ''), ',')::int[])
)
INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, project, file, key_freq)
SELECT a.id, e.id, e.ts, CASE WHEN a.is_full OR e.listed THEN e.lang ELSE 'unknown' END, e.keystrokes, e.lines,
       CASE WHEN a.is_full THEN nullif(e.project, '') END,
       CASE WHEN a.is_full THEN nullif(e.file, '') END,
       CASE WHEN a.is_full THEN nullif(e.key_freq, '') END
FROM (SELECT unnest(sqlc.arg(users)::int[]) AS pos, unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(ts)::bigint[]) AS ts,
             unnest(sqlc.arg(langs)::text[]) AS lang, unnest(sqlc.arg(listed)::bool[]) AS listed,
             unnest(sqlc.arg(keystrokes)::int[]) AS keystrokes, unnest(sqlc.arg(lines)::int[]) AS lines,
             unnest(sqlc.arg(projects)::text[]) AS project, unnest(sqlc.arg(files)::text[]) AS file,
             unnest(sqlc.arg(key_freqs)::text[]) AS key_freq) e
JOIN admitted a ON a.pos = e.pos
WHERE e.ts >= current_setting('commma.horizon')::bigint * 1000;

-- name: IngestInsertHotRuns :exec
-- One row per run of a batch: how the scanner learns that the user has events, without reading them.
WITH admitted AS MATERIALIZED (
    SELECT p.pos, u.id
    FROM (SELECT generate_subscripts(sqlc.arg(user_ids)::uuid[], 1) AS pos, unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) p
    JOIN users u ON u.id = p.user_id
    WHERE u.privacy <> 'off'
      AND p.pos = ANY (string_to_array(nullif(current_setting('commma.admitted'), ''), ',')::int[])
)
INSERT INTO hot_runs (user_id, first_s, last_s)
SELECT a.id, r.first_s, r.last_s
FROM (SELECT unnest(sqlc.arg(users)::int[]) AS pos, unnest(sqlc.arg(firsts)::bigint[]) AS first_s,
             unnest(sqlc.arg(lasts)::bigint[]) AS last_s) r
JOIN admitted a ON a.pos = r.pos
WHERE r.last_s >= current_setting('commma.horizon')::bigint;

-- name: IngestInsertRejections :exec
-- Nothing new of an off user is kept, not even that something was refused.
WITH admitted AS MATERIALIZED (
    SELECT p.pos, u.id
    FROM (SELECT generate_subscripts(sqlc.arg(user_ids)::uuid[], 1) AS pos, unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) p
    JOIN users u ON u.id = p.user_id
    WHERE u.privacy <> 'off'
      AND p.pos = ANY (string_to_array(nullif(current_setting('commma.admitted'), ''), ',')::int[])
)
INSERT INTO rejections (user_id, reason, count)
SELECT a.id, r.reason, r.count
FROM (SELECT unnest(sqlc.arg(users)::int[]) AS pos, unnest(sqlc.arg(reasons)::text[]) AS reason,
             unnest(sqlc.arg(counts)::int[]) AS count) r
JOIN admitted a ON a.pos = r.pos;

-- name: IngestInsertTooOld :exec
-- Counts the events that the horizon refused. Sent only where there may be any.
INSERT INTO rejections (user_id, reason, count)
SELECT u.id, 'too_old', count(*)
FROM (SELECT unnest(sqlc.arg(users)::int[]) AS pos, unnest(sqlc.arg(seconds)::bigint[]) AS second) e
JOIN (SELECT generate_subscripts(sqlc.arg(user_ids)::uuid[], 1) AS pos, unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) p ON p.pos = e.pos
JOIN users u ON u.id = p.user_id
WHERE u.privacy <> 'off'
  AND p.pos = ANY (string_to_array(nullif(current_setting('commma.admitted'), ''), ',')::int[])
  AND e.second < current_setting('commma.horizon')::bigint
GROUP BY u.id;
