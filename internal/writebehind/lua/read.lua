-- A part of a batch. It never writes.
--
-- A cursor of HSCAN means something to the process alone that gave it: another one, which loaded the same data or was promoted,
-- walks the hash in another order. So each part says whose it is.
--
-- KEYS[1] proc  KEYS[2] meta
-- ARGV[1] cursor, 0 at first  ARGV[2] about how many fields
-- Returns {flush id or '', run id of the server, next cursor, 0 at the end, {field, value, field, value...}}.

local info = redis.pcall('INFO', 'server') -- an ACL may forbid it: then restarts go unseen
local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
return { redis.call('HGET', KEYS[2], 'id') or '', run, page[1], page[2] }
