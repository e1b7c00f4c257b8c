-- Adds rows to a board that is being built, and renews the builder's hold on it.
-- KEYS[1] sorted set aside  KEYS[2] hash aside  KEYS[3] building token
-- ARGV[1] generation  ARGV[2] life of the token, ms  ARGV[3] life of the aside keys, ms
-- ARGV[4..] groups of three: member, seconds, value
-- Returns 1, or 0 when the token or a part of what was built is gone: then the aside keys were removed.

if redis.call('GET', KEYS[3]) ~= ARGV[1] or mark() ~= ARGV[1] then
  redis.call('UNLINK', KEYS[1], KEYS[2])
  return 0
end
redis.call('PEXPIRE', KEYS[3], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
for i = 4, #ARGV, 3 do
  redis.call('ZADD', KEYS[1], ARGV[i + 1], ARGV[i])
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 2])
end
return 1
