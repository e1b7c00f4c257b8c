-- Whether a board is there. It never writes.
-- KEYS[1] sorted set  KEYS[2] hash  KEYS[3] building token
-- Returns {generation or '', 1 if somebody is building, else 0, milliseconds of the last publication or 0}.

return { mark() or '', redis.call('EXISTS', KEYS[3]), tonumber(redis.call('HGET', KEYS[2], 'at') or 0) }
