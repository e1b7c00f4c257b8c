-- Groups with boards of their own, and who follows whom. All by user id, since handles can change. Boards of groups and of
-- those whom somebody follows are computed from totals: nothing of them is stored.

-- +goose Up

-- The owner is always a member too.
CREATE TABLE groups (
    id         uuid PRIMARY KEY,
    owner_id   uuid NOT NULL,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Members are added and removed by whoever holds the row of the group: they are counted under it.
CREATE TABLE group_members (
    group_id  uuid NOT NULL,
    user_id   uuid NOT NULL,
    joined_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX group_members_user ON group_members (user_id);
COMMENT ON COLUMN group_members.joined_at IS 'who has been there longest inherits the group';

CREATE TABLE group_invitations (
    group_id   uuid NOT NULL,
    user_id    uuid NOT NULL,
    invited_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX group_invitations_user ON group_invitations (user_id);
COMMENT ON COLUMN group_invitations.user_id IS 'who is invited; only the owner of the group invites';

CREATE TABLE follows (
    user_id     uuid NOT NULL,
    followee_id uuid NOT NULL CHECK (followee_id <> user_id),
    followed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, followee_id)
);
CREATE INDEX follows_followee ON follows (followee_id);
COMMENT ON COLUMN follows.user_id IS 'who follows';

-- +goose Down
DROP TABLE follows, group_invitations, group_members, groups;
