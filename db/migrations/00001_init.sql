-- The first schema. Everything that counts seconds is bigint, everything that is compared bytewise is COLLATE "C",
-- and no table carries an index that no query uses.

-- +goose Up

CREATE TABLE users (
    id                  uuid PRIMARY KEY,
    handle              text COLLATE "C" NOT NULL UNIQUE CHECK (handle ~ '^[A-Za-z0-9-]{1,39}$'),
    token_hash          bytea NOT NULL,
    avatar_url          text,
    privacy             text NOT NULL DEFAULT 'full' CHECK (privacy IN ('full', 'summary', 'off')),
    version             bigint NOT NULL DEFAULT 0,
    streak_first_on     date,
    streak_last_on      date,
    longest_streak_days bigint NOT NULL DEFAULT 0,
    created_at          timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX users_off ON users (id) WHERE privacy = 'off';
COMMENT ON COLUMN users.token_hash IS 'SHA-256 of the bearer token; the token itself is shown once and never stored';
COMMENT ON COLUMN users.version IS 'raised by every transaction that changes what boards show of the user; fences the boards';
COMMENT ON COLUMN users.streak_first_on IS 'first day of the latest run of active days; whether it is current is decided when read';

-- A user's zones over time. The first row (from_s = 0) counts for all time before the next one.
CREATE TABLE user_zones (
    user_id uuid NOT NULL,
    from_s  bigint NOT NULL,
    zone    text NOT NULL,
    PRIMARY KEY (user_id, from_s)
);

-- The hot table: accepted events that are not yet part of a finalized session. Ingest only appends here, so there is
-- no unique key over content and no foreign key: neither may make one commit group wait for another transaction.
-- Copies of an event are folded when they are read.
CREATE TABLE events (
    user_id    uuid NOT NULL,
    seq        bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    id         uuid NOT NULL,
    ts         bigint NOT NULL,
    lang       text COLLATE "C" NOT NULL,
    keystrokes integer NOT NULL,
    lines      integer NOT NULL,
    project    text,
    file       text,
    key_freq   text,
    PRIMARY KEY (user_id, seq)
);
COMMENT ON COLUMN events.ts IS 'milliseconds since the epoch: the END of what the event saw';
COMMENT ON COLUMN events.lang IS 'language key, resolved when the event was accepted';
COMMENT ON COLUMN events.key_freq IS 'key counts as canonical JSON: labels in byte order, no blanks';

-- Which stretches of time of a user the hot table holds: one appended row per run of a batch, merged by the scanner.
-- This is how the due users are found without reading events.
CREATE TABLE hot_runs (
    user_id uuid NOT NULL,
    seq     bigint GENERATED ALWAYS AS IDENTITY (CACHE 64),
    first_s bigint NOT NULL,
    last_s  bigint NOT NULL,
    PRIMARY KEY (user_id, seq)
);
CREATE INDEX hot_runs_last_s ON hot_runs (last_s);

-- Users whose data could not be finalized: set aside, counted, tried again with backoff, in nobody's way.
CREATE TABLE finalize_failures (
    user_id     uuid PRIMARY KEY,
    attempts    integer NOT NULL,
    next_try_at timestamptz NOT NULL,
    reason      text NOT NULL
);
COMMENT ON COLUMN finalize_failures.reason IS 'a class of failure or an SQLSTATE; never data of the user';

-- Events that were refused at the door, by reason, appended by the storing transaction; shown for 7 days.
CREATE TABLE rejections (
    user_id uuid NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    reason  text NOT NULL,
    count   integer NOT NULL
);
CREATE INDEX rejections_user ON rejections (user_id, at);
CREATE INDEX rejections_at ON rejections (at);

CREATE TABLE sessions (
    id          uuid PRIMARY KEY,
    user_id     uuid NOT NULL,
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    zone        text NOT NULL,
    events      bigint NOT NULL,
    keystrokes  bigint NOT NULL,
    lines       bigint NOT NULL,
    top_lang    text COLLATE "C" NOT NULL,
    peak_cpm    bigint NOT NULL,
    peak_at     timestamptz NOT NULL
);
CREATE INDEX sessions_user_started ON sessions (user_id, started_at DESC, id DESC);
COMMENT ON COLUMN sessions.started_at IS '60 s before the second of the first event';
COMMENT ON COLUMN sessions.zone IS 'the zone in force at the first event; it decides the local days of the session';

-- An absorbed session's id still leads to the session that absorbed it.
CREATE TABLE session_aliases (
    id      uuid PRIMARY KEY,
    user_id uuid NOT NULL,
    heir    uuid NOT NULL
);
CREATE INDEX session_aliases_heir ON session_aliases (user_id, heir);

-- A session's seconds per local day and language: kept for ever, they add up to its duration.
CREATE TABLE session_seconds (
    user_id    uuid NOT NULL,
    session_id uuid NOT NULL,
    day        date NOT NULL,
    lang       text COLLATE "C" NOT NULL,
    seconds    bigint NOT NULL CHECK (seconds > 0),
    PRIMARY KEY (user_id, session_id, day, lang)
);

-- What a mode change erases of a session: one row per session, at most 100 files.
CREATE TABLE session_details (
    user_id    uuid NOT NULL,
    session_id uuid NOT NULL,
    files      jsonb,
    key_counts jsonb,
    PRIMARY KEY (user_id, session_id)
);

-- The archive: a finalized session's events, in chunks of bounded size, so that a late event can rebuild it.
CREATE TABLE archives (
    user_id    uuid NOT NULL,
    session_id uuid NOT NULL,
    chunk      integer NOT NULL,
    events     bytea NOT NULL,
    PRIMARY KEY (user_id, session_id, chunk)
);

-- What a mode change erases of an archive: paths, projects and key counts, beside each chunk that has any.
CREATE TABLE archive_details (
    user_id    uuid NOT NULL,
    session_id uuid NOT NULL,
    chunk      integer NOT NULL,
    details    bytea NOT NULL,
    PRIMARY KEY (user_id, session_id, chunk)
);

-- The one truth behind boards, heatmap, recap and streak. lang = '' is the total of all languages.
CREATE TABLE totals (
    user_id   uuid NOT NULL,
    period    text COLLATE "C" NOT NULL CHECK (period IN ('day', 'week', 'month', 'alltime')),
    starts_on date NOT NULL,
    lang      text COLLATE "C" NOT NULL,
    seconds   bigint NOT NULL CHECK (seconds >= 0),
    PRIMARY KEY (user_id, period, starts_on, lang)
);
-- A board is one stretch of it. Its first column is an expression so that no look-up of one user's totals fits it: it
-- holds all columns, and a planner without statistics would read all users' totals there instead of one user's.
CREATE INDEX totals_board ON totals ((lang || ''), period, starts_on, seconds DESC, user_id DESC);
CREATE INDEX totals_zero ON totals (user_id) WHERE seconds = 0;
COMMENT ON COLUMN totals.starts_on IS 'first local day of the period; 1970-01-01 for alltime';

-- Users whose totals the boards do not show yet. Written by the transaction that changed the totals; cleared only at
-- the version that was published; outlives its user.
CREATE TABLE outbox (
    user_id    uuid PRIMARY KEY,
    version    bigint NOT NULL,
    pending_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE outbox, totals, archive_details, archives, session_details, session_seconds, session_aliases, sessions,
    rejections, finalize_failures, hot_runs, events, user_zones, users;
