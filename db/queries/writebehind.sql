-- Flushes of what was gathered in Redis: each is applied in the transaction that records its id.

-- name: FlushGetTime :one
-- Asked before a batch is taken: how old the taking is, is judged by this clock alone.
SELECT clock_timestamp()::timestamptz AS now;

-- name: FlushInsert :execrows
-- Whoever inserts the id applies the batch. A second flusher of the same batch waits here for the first one. Nobody applies
-- a batch that was taken over an hour ago: ids are kept for longer than that, whatever a process slept through.
INSERT INTO flushes (id, source)
SELECT sqlc.arg(id), sqlc.arg(source)
WHERE clock_timestamp() < sqlc.arg(asked_at)::timestamptz + interval '1 hour'
ON CONFLICT DO NOTHING;

-- name: FlushPrune :execrows
-- live are the ids that Redis still holds a batch of, read before this statement began.
DELETE FROM flushes
WHERE source = sqlc.arg(source) AND applied_at < now() - interval '7 days' AND id <> ALL (sqlc.arg(live)::uuid[]);

-- name: FlushSetLockTimeout :exec
-- For the rest of the transaction, in milliseconds.
SELECT set_config('lock_timeout', sqlc.arg(ms)::text, true);

-- name: FlushTouch :execrows
-- A batch that was found to be applied already: its id is kept for as long again, since others may have taken it too.
UPDATE flushes SET applied_at = clock_timestamp() WHERE id = sqlc.arg(id);
