-- Sessions as people read them. Every query takes the user: nobody's session can be reached without its owner's id.

-- name: SessionGetDetail :one
-- One statement, so that a session that is being replaced is never seen half old and half new. An absorbed session's id
-- leads to its heir. langs: {language key: seconds}; files and key_counts as the finalizer wrote them, NULL when there
-- are none.
SELECT s.id, s.started_at, s.ended_at, s.keystrokes, s.lines, s.top_lang, s.peak_cpm, s.peak_at,
    (SELECT jsonb_object_agg(l.lang, l.seconds)
       FROM (SELECT x.lang, sum(x.seconds) AS seconds
               FROM session_seconds x
              WHERE x.user_id = s.user_id AND x.session_id = s.id
              GROUP BY x.lang) l)::jsonb AS langs,
    d.files, d.key_counts
  FROM sessions s
  LEFT JOIN session_details d ON d.user_id = s.user_id AND d.session_id = s.id
 WHERE s.user_id = @user_id
   AND s.id = COALESCE((SELECT a.heir FROM session_aliases a WHERE a.id = @id AND a.user_id = @user_id), @id::uuid);

-- name: SessionListBefore :many
-- Newest first, strictly before (before_at, before_id) in that order: a page costs its own length, at any depth.
SELECT id, started_at, ended_at, keystrokes, lines, top_lang
  FROM sessions
 WHERE user_id = @user_id AND (started_at, id) < (@before_at::timestamptz, @before_id::uuid)
 ORDER BY started_at DESC, id DESC
 LIMIT @max_rows::integer;
