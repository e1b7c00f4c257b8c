-- What reads need so that their cost does not follow the history: the number of a user's sessions beside the user. And the
-- handles that users have given up, which for a while are nobody else's.
-- On a large installation all sessions are counted once; until then the rows of users wait. A process of the release before
-- does not keep the number: the check that runs in the background (`leaderboard verify`) finds and heals what it missed.

-- +goose Up

ALTER TABLE users ADD COLUMN session_count bigint NOT NULL DEFAULT 0;
UPDATE users u SET session_count = s.n
FROM (SELECT user_id, count(*) AS n FROM sessions GROUP BY user_id) s
WHERE s.user_id = u.id;
COMMENT ON COLUMN users.session_count IS 'how many rows of sessions the user has: moved by the transaction that moves them';

CREATE TABLE former_handles (
    handle  text COLLATE "C" PRIMARY KEY,
    user_id uuid NOT NULL,
    until   timestamptz NOT NULL
);
CREATE INDEX former_handles_user ON former_handles (user_id);
COMMENT ON TABLE former_handles IS 'handles that were given up: until then they are for who had them, and lead nowhere';

-- +goose Down
DROP TABLE former_handles;
ALTER TABLE users DROP COLUMN session_count;
