-- Everything that is stored about a user, table by table: each row as one JSON object, whatever columns it has. Left out are the
-- user's id, which is that of the whole, the token's hash, and the ids of others, in whose place their handles stand.

-- name: ExportArchives :many
SELECT a.session_id, a.events, d.details FROM archives a
LEFT JOIN archive_details d USING (user_id, session_id, chunk)
WHERE a.user_id = $1
ORDER BY a.session_id, a.chunk;

-- name: ExportCommentsReceived :many
-- Who went off is shown to nobody else.
SELECT (to_jsonb(c) - 'owner_id' - 'author_id' || jsonb_build_object('by', a.handle))::jsonb AS data FROM comments c
JOIN users a ON a.id = c.author_id AND a.privacy <> 'off'
WHERE c.owner_id = $1 AND c.author_id <> $1;

-- name: ExportCommentsWritten :many
SELECT (to_jsonb(c) - 'owner_id' - 'author_id' || jsonb_build_object('session_of', o.handle))::jsonb AS data FROM comments c
LEFT JOIN users o ON o.id = c.owner_id AND (o.privacy <> 'off' OR o.id = $1)
WHERE c.author_id = $1;

-- name: ExportCounterDeltas :many
SELECT (to_jsonb(d) - 'owner_id')::jsonb AS data FROM counter_deltas d WHERE d.owner_id = $1;

-- name: ExportDeletedStretches :many
SELECT (to_jsonb(d) - 'user_id')::jsonb AS data FROM deleted_stretches d WHERE d.user_id = $1;

-- name: ExportEvents :many
SELECT (to_jsonb(e) - 'user_id')::jsonb AS data FROM events e WHERE e.user_id = $1 ORDER BY e.seq;

-- name: ExportFinalizeFailures :many
SELECT (to_jsonb(f) - 'user_id')::jsonb AS data FROM finalize_failures f WHERE f.user_id = $1;

-- name: ExportFormerHandles :many
SELECT (to_jsonb(h) - 'user_id')::jsonb AS data FROM former_handles h WHERE h.user_id = $1;

-- name: ExportFollowed :many
-- Who follows is shown to nobody, so only since when there is somebody.
SELECT (to_jsonb(f) - 'user_id' - 'followee_id')::jsonb AS data FROM follows f WHERE f.followee_id = $1;

-- name: ExportFollows :many
SELECT (to_jsonb(f) - 'user_id' - 'followee_id' || jsonb_build_object('handle', u.handle))::jsonb AS data FROM follows f
LEFT JOIN users u ON u.id = f.followee_id AND u.privacy <> 'off'
WHERE f.user_id = $1;

-- name: ExportGroupInvitations :many
SELECT (to_jsonb(i) - 'user_id' || jsonb_build_object('name', g.name))::jsonb AS data FROM group_invitations i
LEFT JOIN groups g ON g.id = i.group_id
WHERE i.user_id = $1;

-- name: ExportGroupMembers :many
SELECT (to_jsonb(m) - 'user_id' || jsonb_build_object('name', g.name))::jsonb AS data FROM group_members m
LEFT JOIN groups g ON g.id = m.group_id
WHERE m.user_id = $1;

-- name: ExportGroups :many
-- Owners are members, and members have an index.
SELECT (to_jsonb(g) - 'owner_id')::jsonb AS data
FROM group_members m JOIN groups g ON g.id = m.group_id AND g.owner_id = m.user_id
WHERE m.user_id = $1;

-- name: ExportHotRuns :many
SELECT (to_jsonb(h) - 'user_id')::jsonb AS data FROM hot_runs h WHERE h.user_id = $1;

-- name: ExportKudosGiven :many
SELECT (to_jsonb(k) - 'owner_id' - 'user_id' || jsonb_build_object('session_of', o.handle))::jsonb AS data FROM kudos k
LEFT JOIN users o ON o.id = k.owner_id AND o.privacy <> 'off'
WHERE k.user_id = $1;

-- name: ExportKudosReceived :many
SELECT (to_jsonb(k) - 'owner_id' - 'user_id' || jsonb_build_object('by', g.handle))::jsonb AS data FROM kudos k
LEFT JOIN users g ON g.id = k.user_id AND g.privacy <> 'off'
WHERE k.owner_id = $1;

-- name: ExportOutbox :many
SELECT (to_jsonb(o) - 'user_id')::jsonb AS data FROM outbox o WHERE o.user_id = $1;

-- name: ExportRecapMails :many
SELECT (to_jsonb(m) - 'user_id' - 'claim')::jsonb AS data FROM recap_mails m WHERE m.user_id = $1 ORDER BY m.week;

-- name: ExportRejections :many
SELECT (to_jsonb(r) - 'user_id')::jsonb AS data FROM rejections r WHERE r.user_id = $1 ORDER BY r.at;

-- name: ExportSessionAliases :many
SELECT (to_jsonb(a) - 'user_id')::jsonb AS data FROM session_aliases a WHERE a.user_id = $1;

-- name: ExportSessionCounters :many
SELECT (to_jsonb(c) - 'user_id')::jsonb AS data FROM session_counters c WHERE c.user_id = $1;

-- name: ExportSessionDetails :many
SELECT (to_jsonb(d) - 'user_id')::jsonb AS data FROM session_details d WHERE d.user_id = $1;

-- name: ExportSessionSeconds :many
SELECT (to_jsonb(s) - 'user_id')::jsonb AS data FROM session_seconds s WHERE s.user_id = $1;

-- name: ExportSessions :many
SELECT (to_jsonb(s) - 'user_id')::jsonb AS data FROM sessions s WHERE s.user_id = $1 ORDER BY s.started_at;

-- name: ExportTotals :many
SELECT (to_jsonb(t) - 'user_id')::jsonb AS data FROM totals t WHERE t.user_id = $1;

-- name: ExportUserCounters :many
SELECT (to_jsonb(c) - 'user_id')::jsonb AS data FROM user_counters c WHERE c.user_id = $1;

-- name: ExportUsers :many
SELECT (to_jsonb(u) - 'token_hash')::jsonb AS data FROM users u WHERE u.id = $1;

-- name: ExportUserZones :many
SELECT (to_jsonb(z) - 'user_id')::jsonb AS data FROM user_zones z WHERE z.user_id = $1 ORDER BY z.from_s;

-- name: ExportViewDays :many
SELECT (to_jsonb(v) - 'user_id')::jsonb AS data FROM view_days v WHERE v.user_id = $1 ORDER BY v.day;
