-- Takes the deltas of records for one flush: each leaves the deltas and the due set and stands in processing, all at once.
-- KEYS[1] hash: record -> delta  KEYS[2] sorted set: record -> when it is due, ms
-- KEYS[3] hash: record -> flush id, when it was taken (ms), delta, with a blank between
-- ARGV[1] flush id, random  ARGV[2..] records, 1 to 1,000
-- Returns {when, ms, taken, held}: taken is record, delta, record, delta...; held are the ids of older flushes in which some
-- of the records still stand. Those records keep their delta and their place in the due set.

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local taken, held, seen = {}, {}, {}
for i = 2, #ARGV do
  local standing = redis.call('HGET', KEYS[3], ARGV[i])
  local flush = standing and string.match(standing, '^%S+')
  local delta = redis.call('HGET', KEYS[1], ARGV[i])
  if flush == ARGV[1] then -- the client sent this twice, since an answer was lost
    taken[#taken + 1], taken[#taken + 2] = ARGV[i], string.match(standing, '%S+$')
    now = string.match(standing, '^%S+ (%S+)')
  elseif flush then
    if not seen[flush] then held[#held + 1] = flush end
    seen[flush] = true
  else
    -- First what needs no memory: after it Redis refuses nothing, and a full one can still be drained.
    redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[2], ARGV[i])
    if delta then
      redis.call('HSET', KEYS[3], ARGV[i], ARGV[1] .. ' ' .. now .. ' ' .. delta)
      taken[#taken + 1], taken[#taken + 2] = ARGV[i], delta
    end
  end
end
return { now, taken, held }
