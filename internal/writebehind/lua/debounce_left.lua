-- What a flusher that died left behind. It never writes.
-- KEYS[1] sorted set: record -> when it is due, ms
-- KEYS[2] hash: record -> flush id, when it was taken (ms), delta, with a blank between
-- ARGV[1] how long something must have been overdue, ms; negative: not yet due  ARGV[2] records at most
-- Returns {due, flushes}: due are overdue records, the longest first; flushes are the ids of flushes taken that long ago.

local time = redis.call('TIME')
local before = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1]
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'LIMIT', 0, ARGV[2])
local flushes, seen = {}, {}
for _, standing in ipairs(redis.call('HVALS', KEYS[2])) do
  local flush, at = string.match(standing, '^(%S+) (%S+)')
  if flush and not seen[flush] and tonumber(at) < before then
    seen[flush] = true
    flushes[#flushes + 1] = flush
  end
end
return { due, flushes }
