-- The horizon bounds the archive: no event before it is stored, so archives that no later event could touch can go.
-- Deletes are remembered for as long as an event of the deleted stretch could still arrive.
-- On a large installation the new index is built over all archives; until then writes to them wait.

-- +goose Up

-- One row. from_s only ever grows, whatever the clocks and settings of the processes.
CREATE TABLE horizon (
    singleton   boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    from_s      bigint NOT NULL,
    settled_s   bigint NOT NULL CHECK (settled_s <= from_s),
    advanced_at timestamptz NOT NULL
);
INSERT INTO horizon (from_s, settled_s, advanced_at) VALUES (0, 0, now());
COMMENT ON COLUMN horizon.from_s IS 'seconds since the epoch: the storing transaction refuses what is older';
COMMENT ON COLUMN horizon.settled_s IS 'a value that from_s has had, or passed, for so long that no transaction under way has read an older one: archives may be pruned up to it';

-- How far back the running API processes accept events. The horizon stays behind all that were seen lately.
CREATE TABLE accepted_ages (
    age_s   bigint PRIMARY KEY,
    seen_at timestamptz NOT NULL
);

-- Stretches of a user's time that were deleted, both ends included: an event in one is dropped whenever it arrives.
CREATE TABLE deleted_stretches (
    user_id uuid NOT NULL,
    first_s bigint NOT NULL,
    last_s  bigint NOT NULL,
    PRIMARY KEY (user_id, first_s, last_s)
);
CREATE INDEX deleted_stretches_last_s ON deleted_stretches (last_s);

ALTER TABLE archives ADD COLUMN ended_s bigint;
UPDATE archives a SET ended_s = extract(epoch FROM s.ended_at)::bigint FROM sessions s WHERE s.id = a.session_id;
ALTER TABLE archives ALTER COLUMN ended_s SET NOT NULL;
CREATE INDEX archives_ended_s ON archives (ended_s);
COMMENT ON COLUMN archives.ended_s IS 'the second of the session''s last event: how the pruner finds what may go';

-- +goose Down
ALTER TABLE archives DROP COLUMN ended_s;
DROP TABLE deleted_stretches, accepted_ages, horizon;
