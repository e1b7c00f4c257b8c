-- Gives the deltas of a flush back, which was not applied and cannot be any more.
-- KEYS[1] hash: record -> delta  KEYS[2] sorted set: record -> when it is due, ms
-- KEYS[3] hash: record -> flush id, when it was taken (ms), delta, with a blank between
-- ARGV[1] flush id  ARGV[2..] records of the flush
-- Returns how many were given back.

local back = 0
for i = 2, #ARGV do
  local standing = redis.call('HGET', KEYS[3], ARGV[i])
  local flush, delta = string.match(standing or '', '^(%S+) %S+ (%S+)$')
  if flush == ARGV[1] then
    redis.call('HDEL', KEYS[3], ARGV[i]) -- first what needs no memory, so that Redis refuses nothing after it
    redis.call('HINCRBY', KEYS[1], ARGV[i], delta)
    redis.call('ZADD', KEYS[2], 'NX', 0, ARGV[i])
    back = back + 1
  end
end
return back
