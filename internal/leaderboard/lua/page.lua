-- Reads one page of a board. It never writes.
-- KEYS[1] sorted set  KEYS[2] hash
-- ARGV[1] entries, 1 to 100  ARGV[2] 'first', 'after' or 'around'
-- ARGV[3] seconds and ARGV[4] member of the place after which the page starts; for 'around' [4] is the user
-- ARGV[5] member whose own place comes along, '' for nobody
-- Returns {} when there is no whole board, else {milliseconds of the last publication, places before the page, users with
-- more seconds than its first entry, own place, scores, members}: own place is {} or {rank, seconds, value}; scores is
-- member, seconds, member, seconds..., with one more pair than entries if more follow; members is the hash's values of the
-- entries in the same order.

if not mark() then return {} end
local limit, kind, seconds, member = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local function above(score) return redis.call('ZCOUNT', KEYS[1], '(' .. score, '+inf') end

local function less(a, b) -- by bytes; Lua's own < follows the server's locale
  for i = 1, #b do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return not x or x < y end
  end
  return false
end

local function after_place() -- binary search among the ties, which are ordered by member, descending
  local low = above(seconds)
  local high = low + redis.call('ZCOUNT', KEYS[1], seconds, seconds)
  while low < high do
    local mid = math.floor((low + high) / 2)
    if less(redis.call('ZREVRANGE', KEYS[1], mid, mid)[1], member) then high = mid else low = mid + 1 end
  end
  return low
end

local function around_user() -- nil when the user has no place
  if tonumber(redis.call('ZSCORE', KEYS[1], member) or 0) <= 0 then return nil end
  local middle = redis.call('ZREVRANK', KEYS[1], member) - math.floor(limit / 2)
  return math.max(0, math.min(middle, above('0') - limit))
end

local start = 0
if kind == 'after' then start = after_place() elseif kind == 'around' then start = around_user() end
local rows, members = {}, {}
if start then rows = redis.call('ZREVRANGE', KEYS[1], start, start + limit, 'WITHSCORES') end
while #rows > 0 and tonumber(rows[#rows]) <= 0 do -- the mark and the tombstones, which come last
  rows[#rows], rows[#rows - 1] = nil, nil
end
for i = 1, math.min(limit, #rows / 2) do members[i] = rows[2 * i - 1] end
local first, values, me = 0, {}, {}
if start and start > 0 and #members > 0 then first = above(rows[2]) end
if #members > 0 then values = redis.call('HMGET', KEYS[2], unpack(members)) end
local own = ARGV[5] ~= '' and redis.call('ZSCORE', KEYS[1], ARGV[5])
if own and tonumber(own) > 0 then me = { above(own) + 1, own, redis.call('HGET', KEYS[2], ARGV[5]) } end
return { tonumber(redis.call('HGET', KEYS[2], 'at')), start or 0, first, me, rows, values }
