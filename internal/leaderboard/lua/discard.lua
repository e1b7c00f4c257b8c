-- Gives a build up: removes what it gathered, and its token, and remembers that it is over.
-- KEYS[1] sorted set aside  KEYS[2] hash aside  KEYS[3] building token  KEYS[4] notes  KEYS[5] end of this build
-- ARGV[1] generation  ARGV[2] how long its end is remembered, ms
-- Returns 1 when the token was still its own, else 0.

redis.call('UNLINK', KEYS[1], KEYS[2]) -- first: after a script's first write Redis refuses none for want of memory
redis.call('SET', KEYS[5], '', 'PX', ARGV[2])
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[3], KEYS[4])
return 1
