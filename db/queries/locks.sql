-- name: LockTryWriter :one
-- A statement of its own: what follows must take its snapshot after the lock.
SELECT pg_try_advisory_xact_lock(sqlc.arg(lock)::bigint);
