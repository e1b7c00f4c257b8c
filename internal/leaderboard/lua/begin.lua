-- Starts the build of a board: takes the token, removes the board, starts the aside keys with the mark in both, and an
-- empty hash of notes. A repeat with the token held has nothing to do: chunks and notes may be there already. A copy that
-- arrives when its build is over must do nothing either: so it must arrive in time, which is less than the life of the token,
-- and the end of a build is remembered for longer than that.
-- KEYS[1] sorted set aside  KEYS[2] hash aside  KEYS[3] building token  KEYS[4] notes  KEYS[5] end of this build
-- KEYS[6] sorted set  KEYS[7] hash
-- ARGV[1] generation, which is the token  ARGV[2] life of the token, ms  ARGV[3] life of aside keys and notes, ms
-- ARGV[4] the last second by Redis's clock at which it may start
-- Returns 1, or 0 when somebody else is building, or 2 when it comes late: then nothing was written.

local token = redis.call('GET', KEYS[3])
if token then return token == ARGV[1] and 1 or 0 end
if redis.call('EXISTS', KEYS[5]) == 1 or tonumber(redis.call('TIME')[1]) > tonumber(ARGV[4]) then return 2 end
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
redis.call('UNLINK', KEYS[6], KEYS[7], KEYS[1], KEYS[2], KEYS[4])
redis.call('ZADD', KEYS[1], -1, 'gen:' .. ARGV[1])
redis.call('HSET', KEYS[2], 'gen', ARGV[1], 'run', run_id())
redis.call('HSET', KEYS[4], 'gen', ARGV[1])
for _, key in ipairs({ KEYS[1], KEYS[2], KEYS[4] }) do redis.call('PEXPIRE', key, ARGV[3]) end
return 1
