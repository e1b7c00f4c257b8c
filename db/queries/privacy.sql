-- What a change of mode erases. Every statement here runs in a transaction that holds the user's writer lock and ingest
-- lock, and after the statements that took them.

-- name: PrivacyDeleteArchiveDetails :exec
DELETE FROM archive_details WHERE user_id = $1;

-- name: PrivacyDeleteEvents :exec
DELETE FROM events WHERE user_id = $1;

-- name: PrivacyDeleteSessionDetails :exec
DELETE FROM session_details WHERE user_id = $1;

-- name: PrivacyEraseEvents :exec
-- Rows without details are left alone: a user who has none to erase rewrites nothing.
UPDATE events SET project = NULL, file = NULL, key_freq = NULL
WHERE user_id = $1 AND (project IS NOT NULL OR file IS NOT NULL OR key_freq IS NOT NULL);
