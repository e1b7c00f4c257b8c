-- All records of one flush. It never writes.
-- KEYS[1] hash: record -> flush id, when it was taken (ms), delta, with a blank between
-- ARGV[1] flush id
-- Returns {when it was taken, ms, records}: record, delta, record, delta...; {} when nothing of it stands.

local when, records = nil, {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local flush, at, delta = string.match(all[i + 1], '^(%S+) (%S+) (%S+)$')
  if flush == ARGV[1] then
    when = at
    records[#records + 1], records[#records + 2] = all[i], delta
  end
end
return when and { when, records } or {}
