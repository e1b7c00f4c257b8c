-- Which flushes of debounced counters were applied.

-- name: DebounceForget :execrows
DELETE FROM flushes
WHERE source = sqlc.arg(source) AND applied_at < statement_timestamp() - sqlc.arg(age_s)::bigint * interval '1 second';

-- name: DebounceKnown :one
-- lapsed: nobody can be applying it any more either, in a transaction that began when it was young enough.
SELECT EXISTS (SELECT FROM flushes f WHERE f.id = sqlc.arg(id))::boolean AS known,
    (sqlc.arg(taken_at)::timestamptz < statement_timestamp() - sqlc.arg(age_s)::bigint * interval '1 second')::boolean AS lapsed;

-- name: DebounceRecord :execrows
-- In the transaction that applies the flush. No row: it was applied before, or is too old to be applied.
INSERT INTO flushes (id, source)
SELECT sqlc.arg(id), sqlc.arg(source)
WHERE sqlc.arg(taken_at)::timestamptz > statement_timestamp() - sqlc.arg(age_s)::bigint * interval '1 second'
ON CONFLICT DO NOTHING;
