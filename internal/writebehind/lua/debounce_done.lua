-- Forgets a flush that was applied. Records that stand in another flush by now are left alone.
-- KEYS[1] hash: record -> flush id, when it was taken (ms), delta, with a blank between
-- ARGV[1] flush id  ARGV[2..] records of the flush
-- Returns how many were removed.

local gone = 0
for i = 2, #ARGV do
  local standing = redis.call('HGET', KEYS[1], ARGV[i])
  if standing and string.match(standing, '^%S+') == ARGV[1] then gone = gone + redis.call('HDEL', KEYS[1], ARGV[i]) end
end
return gone
