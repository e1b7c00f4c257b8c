-- The locks of whoever changes a user. Each is a statement of its own: what follows must take its snapshot after it.

-- name: AccountLockIngest :exec
-- Waits in the queue, which turns new shared attempts away: uploads cannot starve it. lock_timeout bounds the wait.
SELECT pg_advisory_xact_lock($1);

-- name: AccountSetLockTimeout :exec
-- For the rest of the transaction, in milliseconds.
SELECT set_config('lock_timeout', sqlc.arg(ms)::text, true);

-- name: AccountSetStatementTimeout :one
-- For the rest of the transaction, or until the savepoint before it is rolled back to. Returns what was in force.
SELECT b.timeout::text AS before, set_config('statement_timeout', sqlc.arg(timeout)::text, true)::text AS now
FROM (SELECT current_setting('statement_timeout') AS timeout OFFSET 0) b;
