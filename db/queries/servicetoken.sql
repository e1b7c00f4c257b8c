-- Tokens of jobs.

-- name: ServiceTokenGetScopes :one
SELECT scopes FROM service_tokens WHERE token_hash = $1 AND revoked_at IS NULL;

-- name: ServiceTokenInsert :exec
INSERT INTO service_tokens (name, token_hash, scopes) VALUES (sqlc.arg(name), sqlc.arg(token_hash), sqlc.arg(scopes)::text[]);

-- name: ServiceTokenList :many
SELECT name, scopes, created_at, revoked_at FROM service_tokens ORDER BY name;

-- name: ServiceTokenRevoke :execrows
-- Once revoked it stays so, with the time of the first revocation.
UPDATE service_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE name = $1;
