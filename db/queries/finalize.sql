-- What one user's finalize reads and writes. Every statement here runs in the transaction that holds the user's writer
-- lock, and after the statement that took it.

-- name: FinalizeCountEvents :one
-- How many hot events a user has, but no more than are worth counting, without a look at what is in them.
SELECT count(*) FROM (SELECT 1 FROM events WHERE user_id = sqlc.arg(user_id) LIMIT sqlc.arg(max_rows)::bigint) e;

-- name: FinalizeDeleteAliases :exec
-- What led to a session that was deleted leads nowhere.
DELETE FROM session_aliases WHERE user_id = sqlc.arg(user_id) AND heir = ANY (sqlc.arg(session_ids)::uuid[]);

-- name: FinalizeDeleteEvents :exec
DELETE FROM events WHERE user_id = sqlc.arg(user_id) AND seq = ANY (sqlc.arg(seqs)::bigint[]);

-- name: FinalizeDeleteHotRuns :exec
DELETE FROM hot_runs WHERE user_id = sqlc.arg(user_id) AND seq = ANY (sqlc.arg(seqs)::bigint[]);

-- name: FinalizeDeleteParts :exec
-- Everything that hangs on sessions that are about to be written anew.
WITH seconds AS (
    DELETE FROM session_seconds t WHERE t.user_id = sqlc.arg(user_id) AND t.session_id = ANY (sqlc.arg(session_ids)::uuid[])
), details AS (
    DELETE FROM session_details t WHERE t.user_id = sqlc.arg(user_id) AND t.session_id = ANY (sqlc.arg(session_ids)::uuid[])
), archive_details AS (
    DELETE FROM archive_details t WHERE t.user_id = sqlc.arg(user_id) AND t.session_id = ANY (sqlc.arg(session_ids)::uuid[])
)
DELETE FROM archives t WHERE t.user_id = sqlc.arg(user_id) AND t.session_id = ANY (sqlc.arg(session_ids)::uuid[]);

-- name: FinalizeDeleteSessions :exec
DELETE FROM sessions WHERE user_id = sqlc.arg(user_id) AND id = ANY (sqlc.arg(session_ids)::uuid[]);

-- name: FinalizeDeleteUnowned :exec
-- What a user who no longer exists left behind in the hot table.
WITH runs AS (
    DELETE FROM hot_runs h WHERE h.user_id = sqlc.arg(user_id)
), failures AS (
    DELETE FROM finalize_failures f WHERE f.user_id = sqlc.arg(user_id)
)
DELETE FROM events e WHERE e.user_id = sqlc.arg(user_id);

-- name: FinalizeGetArchives :many
SELECT a.session_id, a.events, d.details
FROM archives a
LEFT JOIN archive_details d USING (user_id, session_id, chunk)
WHERE a.user_id = sqlc.arg(user_id) AND a.session_id = ANY (sqlc.arg(session_ids)::uuid[])
ORDER BY a.session_id, a.chunk;

-- name: FinalizeGetDayTotals :many
SELECT starts_on, seconds FROM totals
WHERE user_id = sqlc.arg(user_id) AND period = 'day' AND lang = '' AND starts_on = ANY (sqlc.arg(days)::date[]);

-- name: FinalizeGetEvents :many
-- One row over what the caller can take tells that there are too many; the rest need not be sent.
SELECT seq, id, ts, lang, keystrokes, lines, project, file, key_freq FROM events
WHERE user_id = sqlc.arg(user_id) LIMIT sqlc.arg(max_rows)::bigint;

-- name: FinalizeGetHotRuns :many
-- Read before the events: whatever a row stands for was committed with it, so the later read of the events sees it.
SELECT seq FROM hot_runs WHERE user_id = $1;

-- name: FinalizeGetSeconds :many
SELECT day, lang, sum(seconds)::bigint AS seconds FROM session_seconds
WHERE user_id = sqlc.arg(user_id) AND session_id = ANY (sqlc.arg(session_ids)::uuid[])
GROUP BY day, lang;

-- name: FinalizeGetTouchedSessions :many
-- The sessions with an event no further than the idle time from one of the runs. A user's sessions never overlap, so of
-- those that start before a run's reach only the latest can extend into it: the cost does not follow the history.
SELECT DISTINCT t.id, extract(epoch FROM t.started_at)::bigint AS started_s, extract(epoch FROM t.ended_at)::bigint AS ended_s, t.events
FROM (SELECT unnest(sqlc.arg(firsts)::bigint[]) AS first_s, unnest(sqlc.arg(lasts)::bigint[]) AS last_s) w
CROSS JOIN LATERAL (
    (SELECT s.id, s.started_at, s.ended_at, s.events FROM sessions s
     WHERE s.user_id = sqlc.arg(user_id)
       AND s.started_at >= to_timestamp(w.first_s - 900)
       AND s.started_at <= to_timestamp(w.last_s + 900 - 60))
    UNION ALL
    (SELECT s.id, s.started_at, s.ended_at, s.events FROM sessions s
     WHERE s.user_id = sqlc.arg(user_id) AND s.started_at < to_timestamp(w.first_s - 900)
     ORDER BY s.started_at DESC LIMIT 1)
) t
WHERE t.ended_at >= to_timestamp(w.first_s - 900)
ORDER BY 2;

-- name: FinalizeGetUser :one
-- The instant that decides which runs have ended is Postgres's, unless the caller brings one.
SELECT floor(extract(epoch FROM coalesce(sqlc.narg(now)::timestamptz, statement_timestamp())))::bigint AS now_s,
       u.privacy, u.version, u.streak_first_on, u.streak_last_on, u.longest_streak_days,
       array(SELECT z.from_s FROM user_zones z WHERE z.user_id = u.id ORDER BY z.from_s)::bigint[] AS zone_from_s,
       array(SELECT z.zone FROM user_zones z WHERE z.user_id = u.id ORDER BY z.from_s)::text[] AS zone_names,
       array(SELECT d.first_s FROM deleted_stretches d WHERE d.user_id = u.id ORDER BY d.first_s, d.last_s)::bigint[] AS deleted_first_s,
       array(SELECT d.last_s FROM deleted_stretches d WHERE d.user_id = u.id ORDER BY d.first_s, d.last_s)::bigint[] AS deleted_last_s,
       EXISTS (SELECT 1 FROM finalize_failures f WHERE f.user_id = u.id) AS failed_before
FROM users u
WHERE u.id = sqlc.arg(user_id);

-- name: FinalizeInsertAliases :exec
INSERT INTO session_aliases (id, user_id, heir)
SELECT unnest(sqlc.arg(absorbed)::uuid[]), sqlc.arg(user_id), sqlc.arg(heir)::uuid;

-- name: FinalizeInsertArchives :exec
-- Archive chunks of one user's sessions, and beside those that have any, the details.
WITH chunks AS (
    SELECT unnest(sqlc.arg(session_ids)::uuid[]) AS session_id, unnest(sqlc.arg(chunks)::int[]) AS chunk,
           unnest(sqlc.arg(ended_s)::bigint[]) AS ended_s,
           unnest(sqlc.arg(events)::bytea[]) AS events, unnest(sqlc.arg(details)::bytea[]) AS details
), details AS (
    INSERT INTO archive_details (user_id, session_id, chunk, details)
    SELECT sqlc.arg(user_id), c.session_id, c.chunk, c.details FROM chunks c WHERE c.details IS NOT NULL
)
INSERT INTO archives (user_id, session_id, chunk, ended_s, events)
SELECT sqlc.arg(user_id), c.session_id, c.chunk, c.ended_s, c.events FROM chunks c;

-- name: FinalizeInsertDetails :exec
INSERT INTO session_details (user_id, session_id, files, key_counts)
SELECT sqlc.arg(user_id), d.session_id, nullif(d.files, '')::jsonb, nullif(d.key_counts, '')::jsonb
FROM (SELECT unnest(sqlc.arg(session_ids)::uuid[]) AS session_id, unnest(sqlc.arg(files)::text[]) AS files,
             unnest(sqlc.arg(key_counts)::text[]) AS key_counts) d;

-- name: FinalizeInsertHotRuns :exec
INSERT INTO hot_runs (user_id, first_s, last_s)
SELECT sqlc.arg(user_id), unnest(sqlc.arg(firsts)::bigint[]), unnest(sqlc.arg(lasts)::bigint[]);

-- name: FinalizeInsertSeconds :exec
INSERT INTO session_seconds (user_id, session_id, day, lang, seconds)
SELECT sqlc.arg(user_id), unnest(sqlc.arg(session_ids)::uuid[]), unnest(sqlc.arg(days)::date[]),
       unnest(sqlc.arg(langs)::text[]), unnest(sqlc.arg(seconds)::bigint[]);

-- name: FinalizeMoveAliases :exec
-- What pointed to an absorbed session now points to its heir.
UPDATE session_aliases SET heir = sqlc.arg(heir)
WHERE user_id = sqlc.arg(user_id) AND heir = ANY (sqlc.arg(absorbed)::uuid[]);

-- name: FinalizeMoveSessionCount :exec
-- Sessions that come and go while no total changes; else the number moves with the user's version.
UPDATE users SET session_count = session_count + sqlc.arg(sessions)::bigint WHERE id = sqlc.arg(user_id);

-- name: FinalizeMoveTotals :exec
-- A total that would fall below zero violates its check: the transaction fails and the user is set aside. (An upsert
-- would check the difference itself, which may well be negative.)
WITH deltas AS (
    SELECT unnest(sqlc.arg(periods)::text[]) AS period, unnest(sqlc.arg(starts_on)::date[]) AS starts_on,
           unnest(sqlc.arg(langs)::text[]) AS lang, unnest(sqlc.arg(seconds)::bigint[]) AS seconds
), moved AS (
    UPDATE totals t SET seconds = t.seconds + d.seconds FROM deltas d
    WHERE t.user_id = sqlc.arg(user_id) AND t.period = d.period AND t.starts_on = d.starts_on AND t.lang = d.lang
    RETURNING t.period, t.starts_on, t.lang
)
INSERT INTO totals (user_id, period, starts_on, lang, seconds)
SELECT sqlc.arg(user_id), d.period, d.starts_on, d.lang, d.seconds FROM deltas d
WHERE NOT EXISTS (SELECT 1 FROM moved m WHERE m.period = d.period AND m.starts_on = d.starts_on AND m.lang = d.lang);

-- name: FinalizeUpdateUser :exec
UPDATE users
SET version = sqlc.arg(version), streak_first_on = sqlc.narg(streak_first_on), streak_last_on = sqlc.narg(streak_last_on),
    longest_streak_days = sqlc.arg(longest_streak_days), session_count = session_count + sqlc.arg(sessions)::bigint
WHERE id = sqlc.arg(user_id);

-- name: FinalizeUpdateUserRebuildStreak :exec
-- The streak from the days themselves, when a day that is not the newest came or went.
WITH days AS (
    SELECT starts_on AS day FROM totals
    WHERE user_id = sqlc.arg(user_id) AND period = 'day' AND lang = '' AND seconds > 0
), runs AS (
    SELECT min(g.day) AS first_on, max(g.day) AS last_on, count(*) AS days
    FROM (SELECT d.day, d.day - (row_number() OVER (ORDER BY d.day))::int AS run FROM days d) g
    GROUP BY g.run
)
UPDATE users u
SET version = sqlc.arg(version), session_count = session_count + sqlc.arg(sessions)::bigint,
    streak_first_on = (SELECT r.first_on FROM runs r ORDER BY r.last_on DESC LIMIT 1),
    streak_last_on = (SELECT max(r.last_on) FROM runs r),
    longest_streak_days = (SELECT coalesce(max(r.days), 0) FROM runs r)
WHERE u.id = sqlc.arg(user_id);

-- name: FinalizeUpsertSessions :exec
INSERT INTO sessions (id, user_id, started_at, ended_at, zone, events, keystrokes, lines, top_lang, peak_cpm, peak_at)
SELECT s.id, sqlc.arg(user_id), to_timestamp(s.started_s), to_timestamp(s.ended_s), s.zone, s.events, s.keystrokes, s.lines,
       s.top_lang, s.peak_cpm, to_timestamp(s.peak_s)
FROM (SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(started_s)::bigint[]) AS started_s,
             unnest(sqlc.arg(ended_s)::bigint[]) AS ended_s, unnest(sqlc.arg(zones)::text[]) AS zone,
             unnest(sqlc.arg(events)::bigint[]) AS events, unnest(sqlc.arg(keystrokes)::bigint[]) AS keystrokes,
             unnest(sqlc.arg(lines)::bigint[]) AS lines, unnest(sqlc.arg(top_langs)::text[]) AS top_lang,
             unnest(sqlc.arg(peak_cpms)::bigint[]) AS peak_cpm, unnest(sqlc.arg(peak_s)::bigint[]) AS peak_s) s
ON CONFLICT (id) DO UPDATE
SET started_at = excluded.started_at, ended_at = excluded.ended_at, zone = excluded.zone, events = excluded.events,
    keystrokes = excluded.keystrokes, lines = excluded.lines, top_lang = excluded.top_lang, peak_cpm = excluded.peak_cpm,
    peak_at = excluded.peak_at;
