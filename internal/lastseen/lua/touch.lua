-- Notes that a user was seen, at most once while the marker lives, and never of a user on off.
--
-- It runs before the request is known to be good, so it compares the token by itself. A mode that is not cached is not
-- known: then nothing is noted, and the request that fills the mode notes it.
--
-- KEYS[1] cached hash of the user's token  KEYS[2] cached mode  KEYS[3] marker  KEYS[4] buffer, a hash: user -> milliseconds
-- ARGV[1] hash of the token that was presented, '' when it was found good elsewhere
-- ARGV[2] user  ARGV[3] now, milliseconds since the epoch  ARGV[4] life of the marker, seconds
-- Returns 1 when it was noted, else 0.

if ARGV[1] ~= '' and redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local mode = string.match(redis.call('GET', KEYS[2]) or '', '^%d+:(%a+)$')
if not mode or mode == 'off' then return 0 end
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
local held = tonumber(redis.call('HGET', KEYS[4], ARGV[2]) or 0)
redis.call('SET', KEYS[3], '', 'EX', ARGV[4])
if held < tonumber(ARGV[3]) then redis.call('HSET', KEYS[4], ARGV[2], ARGV[3]) end
return 1
