-- Moves a board that was built aside into its place, without those whose removal was noted meanwhile. The only script
-- that gives a board its mark.
-- KEYS[1] sorted set aside  KEYS[2] hash aside  KEYS[3] building token  KEYS[4] notes  KEYS[5] end of this build
-- KEYS[6] sorted set  KEYS[7] hash
-- ARGV[1] generation  ARGV[2] when the board expires, seconds by Redis's clock, 0 for never  ARGV[3] what it lives at least, ms
-- ARGV[4] how long the end of the build is remembered, ms
-- Returns 1, or 0 when the token, the notes or a part of what was built is gone: then the aside keys were removed.

if redis.call('HGET', KEYS[7], 'gen') == ARGV[1] then return 1 end -- done before, but the answer was lost
if redis.call('GET', KEYS[3]) ~= ARGV[1] or mark() ~= ARGV[1] or redis.call('HGET', KEYS[4], 'gen') ~= ARGV[1]
  or redis.call('EXISTS', KEYS[6], KEYS[7]) > 0 then
  redis.call('UNLINK', KEYS[1], KEYS[2])
  return 0
end
local time = redis.call('TIME')
local notes = redis.call('HGETALL', KEYS[4])
for i = 1, #notes, 2 do
  local member, version = notes[i], notes[i + 1]
  local built = member ~= 'gen' and redis.call('HGET', KEYS[2], member)
  -- Built at a newer version is somebody who left, was noted, and came back before the builder read.
  if member ~= 'gen' and not (built and tonumber(string.match(built, '^%d+') or -1) > tonumber(version)) then
    redis.call('ZADD', KEYS[1], -time[1], member)
    redis.call('HSET', KEYS[2], member, version .. '\0')
  end
end
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[2], 'at', now)
redis.call('RENAME', KEYS[1], KEYS[6])
redis.call('RENAME', KEYS[2], KEYS[7])
local life = math.max(ARGV[2] * 1000 - now, tonumber(ARGV[3]))
for _, key in ipairs({ KEYS[6], KEYS[7] }) do -- time stands still in a script: both expire at the same instant
  if ARGV[2] == '0' then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, life) end
end
redis.call('SET', KEYS[5], '', 'PX', ARGV[4]) -- needs little memory, and a script that has written is refused none
redis.call('DEL', KEYS[3], KEYS[4])
return 1
