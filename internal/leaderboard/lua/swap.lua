-- Moves a board that was built aside into its place. The only script that gives a board its mark.
-- KEYS[1] sorted set aside  KEYS[2] hash aside  KEYS[3] building token  KEYS[4] sorted set  KEYS[5] hash
-- ARGV[1] generation  ARGV[2] life of the board, ms, 0 for ever
-- Returns 1, or 0 when the token or a part of what was built is gone: then the aside keys were removed.

if redis.call('HGET', KEYS[5], 'gen') == ARGV[1] then return 1 end -- done before, but the answer was lost
if redis.call('GET', KEYS[3]) ~= ARGV[1] or mark() ~= ARGV[1] or redis.call('EXISTS', KEYS[4], KEYS[5]) > 0 then
  redis.call('UNLINK', KEYS[1], KEYS[2])
  return 0
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[2], 'at', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('RENAME', KEYS[1], KEYS[4])
redis.call('RENAME', KEYS[2], KEYS[5])
for _, key in ipairs({ KEYS[4], KEYS[5] }) do -- time stands still in a script: both expire at the same instant
  if ARGV[2] == '0' then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, ARGV[2]) end
end
redis.call('DEL', KEYS[3])
return 1
