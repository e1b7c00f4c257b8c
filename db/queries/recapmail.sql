-- The mails of a week: who gets one, who sends it, and what came of it. All of it in sets.

-- name: RecapMailAck :execrows
-- What became of mails, told by the claim that holds them. One that lost its lease to another claim tells nothing, but that a
-- mail was taken: whoever holds that mail now would send it once more.
UPDATE recap_mails m
SET outcome = a.outcome, reply = nullif(a.reply, ''), attempts = m.attempts + 1, done_at = statement_timestamp(), claim = NULL
FROM (SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id, unnest(sqlc.arg(claims)::bigint[]) AS claim,
             unnest(sqlc.arg(outcomes)::text[]) AS outcome, unnest(sqlc.arg(replies)::text[]) AS reply) a
WHERE m.week = sqlc.arg(week) AND m.user_id = a.user_id AND (m.claim = a.claim OR a.outcome = 'sent')
  AND m.outcome IS NULL;

-- name: RecapMailAgain :execrows
-- Mails that were refused are to be sent as if for the first time; never one that was sent. In order, because others may be at
-- the same.
WITH refused AS MATERIALIZED (
    SELECT r.week, r.user_id FROM recap_mails r
    WHERE r.week = sqlc.arg(week) AND r.outcome = ANY (sqlc.arg(outcomes)::text[]) AND r.outcome <> 'sent'
    ORDER BY r.user_id
    FOR UPDATE
)
UPDATE recap_mails m
SET outcome = NULL, attempts = 0, reply = NULL, done_at = NULL, claim = NULL, next_at = statement_timestamp()
FROM refused d
WHERE m.week = d.week AND m.user_id = d.user_id;

-- name: RecapMailClaim :many
-- Takes a lease on mails that are due. Those that another process is taking at this moment are passed over; one whose
-- lease has ended is due like any other. Chosen first and whole: joined, a plan could choose more than once.
WITH due AS MATERIALIZED (
    SELECT r.week, r.user_id FROM recap_mails r
    WHERE r.week = sqlc.arg(week) AND r.outcome IS NULL AND r.next_at <= statement_timestamp()
    ORDER BY r.next_at
    LIMIT sqlc.arg(max_rows)
    FOR UPDATE SKIP LOCKED
)
UPDATE recap_mails m
SET claim = sqlc.arg(claim)::bigint, next_at = statement_timestamp() + sqlc.arg(lease_ms)::bigint * interval '1 millisecond'
FROM due d
WHERE m.week = d.week AND m.user_id = d.user_id
RETURNING m.user_id, m.attempts;

-- name: RecapMailCounts :many
SELECT coalesce(outcome, '')::text AS outcome, count(*)::bigint AS mails FROM recap_mails WHERE week = $1 GROUP BY outcome;

-- name: RecapMailDrop :exec
-- Mails that nobody wants any more are forgotten: who wants them again gets them with the next run.
DELETE FROM recap_mails m
USING (SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) d
WHERE m.week = sqlc.arg(week) AND m.user_id = d.user_id AND m.claim = sqlc.arg(claim)::bigint AND m.outcome IS NULL;

-- name: RecapMailEnqueue :execrows
-- In order, because others may be at the same: each then waits for one that is ahead. The share lock keeps a delete of the user waiting, or waits for it: no row outlives its user.
INSERT INTO recap_mails (week, user_id)
SELECT sqlc.arg(week)::date, u.id FROM users u
WHERE u.id = ANY (sqlc.arg(user_ids)::uuid[]) AND u.privacy <> 'off' AND u.recap_mail AND u.email IS NOT NULL
ORDER BY u.id
FOR KEY SHARE OF u
ON CONFLICT (week, user_id) DO NOTHING;

-- name: RecapMailEraseUser :exec
DELETE FROM recap_mails WHERE user_id = $1;

-- name: RecapMailNext :one
-- When the next mail of the week is due, and how many are left. Without any the time is null.
SELECT count(*)::bigint AS mails, coalesce(extract(epoch FROM min(next_at) - statement_timestamp()) * 1000, 0)::bigint AS in_ms
FROM recap_mails WHERE week = $1 AND outcome IS NULL;

-- name: RecapMailNow :one
SELECT statement_timestamp()::timestamptz AS now;

-- name: RecapMailPrune :execrows
DELETE FROM recap_mails WHERE week < $1;

-- name: RecapMailRelease :exec
-- Gives mails back that were claimed and not begun.
UPDATE recap_mails m
SET claim = NULL, next_at = statement_timestamp()
FROM (SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id) d
WHERE m.week = sqlc.arg(week) AND m.user_id = d.user_id AND m.claim = sqlc.arg(claim)::bigint AND m.outcome IS NULL;

-- name: RecapMailRetry :execrows
-- Mails that were refused for now.
UPDATE recap_mails m
SET claim = NULL, attempts = m.attempts + 1, reply = nullif(a.reply, ''),
    next_at = statement_timestamp() + a.wait_ms * interval '1 millisecond'
FROM (SELECT unnest(sqlc.arg(user_ids)::uuid[]) AS user_id, unnest(sqlc.arg(claims)::bigint[]) AS claim,
             unnest(sqlc.arg(waits_ms)::bigint[]) AS wait_ms, unnest(sqlc.arg(replies)::text[]) AS reply) a
WHERE m.week = sqlc.arg(week) AND m.user_id = a.user_id AND m.claim = a.claim AND m.outcome IS NULL;

-- name: RecapMailUnsubscribe :exec
UPDATE users SET recap_mail = false WHERE id = $1 AND recap_mail;

-- name: SigningKeyGet :one
SELECT key FROM signing_keys WHERE purpose = $1;

-- name: SigningKeyInsert :exec
INSERT INTO signing_keys (purpose, key) VALUES (sqlc.arg(purpose), sqlc.arg(key)) ON CONFLICT (purpose) DO NOTHING;
