-- Counters that are written behind: gathered elsewhere and applied in bulk. They stand in tables of their own, so that a
-- flush never waits for a row that a finalize holds, and their rows stay narrow and are updated in place.

-- +goose Up

-- One row per session, made with it. What an absorbed session has goes to its heir.
CREATE TABLE session_counters (
    user_id    uuid NOT NULL,
    session_id uuid NOT NULL,
    views      bigint NOT NULL DEFAULT 0,
    shares     bigint NOT NULL DEFAULT 0,
    kudos      bigint NOT NULL DEFAULT 0,
    comments   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, session_id)
) WITH (fillfactor = 70);
COMMENT ON COLUMN session_counters.user_id IS 'the owner of the session';
COMMENT ON COLUMN session_counters.kudos IS 'follows the rows of kudos: this and counter_deltas add up to their number';
INSERT INTO session_counters (user_id, session_id) SELECT user_id, id FROM sessions;

-- One row per user, made with it.
CREATE TABLE user_counters (
    user_id      uuid PRIMARY KEY,
    views        bigint NOT NULL DEFAULT 0,
    last_seen_at timestamptz,
    keeps        boolean NOT NULL DEFAULT true
) WITH (fillfactor = 70);
COMMENT ON COLUMN user_counters.keeps IS 'false for a user on off. It stands in this row because a flush that waited for it is judged by the row as it is then';
INSERT INTO user_counters (user_id, keeps) SELECT id, privacy <> 'off' FROM users;

-- Views of a user's pages by UTC day.
CREATE TABLE view_days (
    user_id  uuid NOT NULL,
    day      date NOT NULL,
    profile  bigint NOT NULL,
    sessions bigint NOT NULL,
    PRIMARY KEY (user_id, day)
) WITH (fillfactor = 70);

-- Flushes that were applied: a flush id that stands here is not applied again. Each source forgets its own after a week,
-- except those that Redis still holds a batch of.
CREATE TABLE flushes (
    id         uuid PRIMARY KEY,
    source     text NOT NULL DEFAULT '',
    applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX flushes_applied_at ON flushes (source, applied_at);
COMMENT ON COLUMN flushes.applied_at IS 'when it was applied, or last found to be applied already';

CREATE TABLE kudos (
    owner_id   uuid NOT NULL,
    session_id uuid NOT NULL,
    user_id    uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner_id, session_id, user_id)
);
CREATE INDEX kudos_user ON kudos (user_id);
COMMENT ON COLUMN kudos.user_id IS 'who gave it';

CREATE TABLE comments (
    id         uuid PRIMARY KEY,
    owner_id   uuid NOT NULL,
    session_id uuid NOT NULL,
    author_id  uuid NOT NULL,
    body       text NOT NULL CHECK (length(body) BETWEEN 1 AND 2000),
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX comments_session ON comments (owner_id, session_id, created_at, id);
CREATE INDEX comments_author ON comments (author_id);
COMMENT ON COLUMN comments.owner_id IS 'the owner of the session';

-- What the rows of kudos and comments changed and the counters do not show yet, appended by the transaction of the row.
CREATE TABLE counter_deltas (
    owner_id   uuid NOT NULL,
    session_id uuid NOT NULL,
    seq        bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    at         timestamptz NOT NULL DEFAULT now(),
    kudos      integer NOT NULL DEFAULT 0,
    comments   integer NOT NULL DEFAULT 0,
    PRIMARY KEY (owner_id, session_id, seq)
);

-- +goose Down
DROP TABLE counter_deltas, comments, kudos, flushes, view_days, user_counters, session_counters;
