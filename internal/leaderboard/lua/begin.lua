-- Starts the build of a board: takes the token, removes the board, starts the aside keys with the mark in both, and an
-- empty hash of notes.
-- KEYS[1] sorted set aside  KEYS[2] hash aside  KEYS[3] building token  KEYS[4] notes  KEYS[5] sorted set  KEYS[6] hash
-- ARGV[1] generation, which is the token  ARGV[2] life of the token, ms  ARGV[3] life of aside keys and notes, ms
-- Returns 1, or 0 when somebody else is building: then nothing was written.

local token = redis.call('GET', KEYS[3])
if token and token ~= ARGV[1] then return 0 end -- its own: the client sent it twice, since an answer was lost
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
redis.call('UNLINK', KEYS[5], KEYS[6], KEYS[1], KEYS[2], KEYS[4])
redis.call('ZADD', KEYS[1], -1, 'gen:' .. ARGV[1])
redis.call('HSET', KEYS[2], 'gen', ARGV[1], 'run', run_id())
redis.call('HSET', KEYS[4], 'gen', ARGV[1])
for _, key in ipairs({ KEYS[1], KEYS[2], KEYS[4] }) do redis.call('PEXPIRE', key, ARGV[3]) end
return 1
