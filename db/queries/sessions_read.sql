-- Sessions as people read them.

-- name: SessionGetDetail :one
-- One statement, so that a session that is being replaced is never seen half old and half new, and so that the mode, which
-- decides who may see how much, is not older than what it decides about. An absorbed session's id leads to its heir.
-- langs: {language key: seconds} of the max_langs languages with the most seconds, ties to the smaller key; other_seconds:
-- those of all others together. A session may have as many languages as events, and names of languages are the user's own.
-- files and key_counts as the finalizer wrote them, NULL when there are none.
SELECT s.user_id, u.privacy, s.id, s.started_at, s.ended_at, s.keystrokes, s.lines, s.top_lang, s.peak_cpm, s.peak_at,
    l.langs::jsonb AS langs, l.other_seconds::bigint AS other_seconds, d.files, d.key_counts,
    COALESCE(c.views, 0)::bigint AS views, COALESCE(c.shares, 0)::bigint AS shares,
    COALESCE(c.kudos, 0)::bigint AS kudos, COALESCE(c.comments, 0)::bigint AS comments
  FROM sessions s
  JOIN users u ON u.id = s.user_id
 CROSS JOIN LATERAL (
     SELECT jsonb_object_agg(r.lang, r.seconds) FILTER (WHERE r.place <= @max_langs::integer) AS langs,
            COALESCE(sum(r.seconds) FILTER (WHERE r.place > @max_langs), 0) AS other_seconds
       FROM (SELECT x.lang, sum(x.seconds) AS seconds, row_number() OVER (ORDER BY sum(x.seconds) DESC, x.lang) AS place
               FROM session_seconds x
              WHERE x.user_id = s.user_id AND x.session_id = s.id
              GROUP BY x.lang) r) l
  LEFT JOIN session_details d ON d.user_id = s.user_id AND d.session_id = s.id
  LEFT JOIN session_counters c ON c.user_id = s.user_id AND c.session_id = s.id
 WHERE s.id = COALESCE((SELECT a.heir FROM session_aliases a WHERE a.id = @id), @id::uuid);

-- name: SessionGetOwner :one
-- Whose session it is, and under which id it stands now: for what is done beside reading it. It shows nothing of it.
SELECT s.id, s.user_id, u.privacy
  FROM sessions s
  JOIN users u ON u.id = s.user_id
 WHERE s.id = COALESCE((SELECT a.heir FROM session_aliases a WHERE a.id = @id), @id::uuid);

-- name: SessionListBefore :many
-- Newest first, strictly before (before_at, before_id) in that order: a page costs its own length, at any depth. With the mode
-- that decides who may see them, in each row.
SELECT u.privacy, s.id, s.started_at, s.ended_at, s.keystrokes, s.lines, s.top_lang,
    COALESCE(c.views, 0)::bigint AS views, COALESCE(c.shares, 0)::bigint AS shares,
    COALESCE(c.kudos, 0)::bigint AS kudos, COALESCE(c.comments, 0)::bigint AS comments
  FROM sessions s
  JOIN users u ON u.id = s.user_id
  LEFT JOIN session_counters c ON c.user_id = s.user_id AND c.session_id = s.id
 WHERE s.user_id = @user_id AND (s.started_at, s.id) < (@before_at::timestamptz, @before_id::uuid)
 ORDER BY s.started_at DESC, s.id DESC
 LIMIT @max_rows::integer;
