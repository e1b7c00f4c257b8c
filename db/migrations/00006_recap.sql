-- Recaps: whom they are mailed to, which mails went out, and the tokens of jobs that read them. The constraint on users is
-- checked against all of them once, while the table is locked: seconds for millions.

-- +goose Up

ALTER TABLE users
    ADD COLUMN email text CHECK (octet_length(email) BETWEEN 3 AND 254),
    ADD COLUMN recap_mail boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT users_recap_mail CHECK (NOT recap_mail OR email IS NOT NULL);
COMMENT ON COLUMN users.email IS 'where the user wants mail; shown to nobody else and never logged';
COMMENT ON COLUMN users.recap_mail IS 'the user''s own choice, off until it is made; who is on privacy off gets none either way';

-- One row per mail that is to go out, or has: what keeps a mail from going out twice. Rows stay while their week can be
-- sent, and go with their user.
CREATE TABLE recap_mails (
    week     date NOT NULL,
    user_id  uuid NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_at  timestamptz NOT NULL DEFAULT now(),
    claim    bigint,
    outcome  text CHECK (outcome IN ('sent', 'refused', 'given_up')),
    reply    text,
    done_at  timestamptz,
    PRIMARY KEY (week, user_id)
) WITH (fillfactor = 80);
CREATE INDEX recap_mails_due ON recap_mails (week, next_at) WHERE outcome IS NULL;
CREATE INDEX recap_mails_user ON recap_mails (user_id);
COMMENT ON COLUMN recap_mails.week IS 'the Monday that the week starts on';
COMMENT ON COLUMN recap_mails.next_at IS 'not to be sent before: when the next attempt is due, or when the lease of the process that sends it ends';
COMMENT ON COLUMN recap_mails.claim IS 'random, of the batch that holds the lease; only it may acknowledge';
COMMENT ON COLUMN recap_mails.reply IS 'code of the SMTP server''s last refusal, such as 550; never its text, which can hold the address';

-- Keys that all processes share. Made by whoever needs one first.
CREATE TABLE signing_keys (
    purpose    text PRIMARY KEY,
    key        bytea NOT NULL CHECK (octet_length(key) = 32),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Tokens of jobs, which belong to no user.
CREATE TABLE service_tokens (
    name       text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9._-]{1,64}$'),
    token_hash bytea NOT NULL UNIQUE,
    scopes     text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);
COMMENT ON COLUMN service_tokens.token_hash IS 'SHA-256 of the token, which is random, shown once and never stored; it is looked up by this';

-- +goose Down
DROP TABLE service_tokens, signing_keys, recap_mails;
ALTER TABLE users DROP CONSTRAINT users_recap_mail, DROP COLUMN recap_mail, DROP COLUMN email;
