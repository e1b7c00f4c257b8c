-- Gives a build up: removes what it gathered, and its token.
-- KEYS[1] sorted set aside  KEYS[2] hash aside  KEYS[3] building token  KEYS[4] notes
-- ARGV[1] generation
-- Returns 1 when the token was still its own, else 0.

redis.call('UNLINK', KEYS[1], KEYS[2])
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[3], KEYS[4])
return 1
