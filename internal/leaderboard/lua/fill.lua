-- Adds rows to a board that is being built, and renews the builder's hold on it.
-- KEYS[1] sorted set aside  KEYS[2] hash aside  KEYS[3] building token  KEYS[4] notes
-- ARGV[1] generation  ARGV[2] life of the token, ms  ARGV[3] life of aside keys and notes, ms
-- ARGV[4..] groups of three: member, seconds, value
-- Returns 1, or 0 when the token or a part of what was built is gone: then the aside keys were removed.

if redis.call('GET', KEYS[3]) ~= ARGV[1] or mark() ~= ARGV[1] then
  redis.call('UNLINK', KEYS[1], KEYS[2])
  return 0
end
-- First what needs memory: after a script's first write Redis refuses none for want of it.
for i = 4, #ARGV, 3 do
  redis.call('ZADD', KEYS[1], ARGV[i + 1], ARGV[i])
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 2])
end
redis.call('PEXPIRE', KEYS[3], ARGV[2])
for _, key in ipairs({ KEYS[1], KEYS[2], KEYS[4] }) do redis.call('PEXPIRE', key, ARGV[3]) end
return 1
