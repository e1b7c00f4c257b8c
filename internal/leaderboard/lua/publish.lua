-- Writes absolute seconds of many users into one board, behind the fence of doc.go.
-- KEYS[1] sorted set  KEYS[2] hash  KEYS[3] building token  KEYS[4] notes of who builds
-- ARGV[1] generation learned before the totals were read, '' for none yet
-- ARGV[2] when the totals were read, seconds by Redis's clock
-- ARGV[3..] groups of four: member, version, seconds (0 removes), facts
-- Returns {0, positions of the refused groups from 1...}: the others were taken
--         {1} there was no whole board, and now there is nothing of it  {2} the same, but somebody is building it
--         {5} like 2, and who builds it will leave the removed out
--         {3, generation} it is another one  {4} read over an hour ago. After 1 to 5 no row was written.

local READ_TTL, TOMBSTONE_TTL, PRUNE, NOTES = 3600, 86400, 100, 2000

local function note_removals(token)
  if redis.call('HGET', KEYS[4], 'gen') ~= token or redis.call('HLEN', KEYS[4]) > NOTES then return { 2 } end
  for i = 3, #ARGV, 4 do
    local noted = redis.call('HGET', KEYS[4], ARGV[i]) or -1
    if ARGV[i + 2] == '0' and tonumber(ARGV[i + 1]) > tonumber(noted) then redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1]) end
  end
  return { 5 }
end

local time = redis.call('TIME')
local now = tonumber(time[1])
if now - tonumber(ARGV[2]) > READ_TTL then return { 4 } end -- also of a board that is not there: the spans are too old as well
local gen = mark()
if not gen then
  -- What remains of it must not come back whole, should a server that made it take over again.
  redis.call('UNLINK', KEYS[1], KEYS[2])
  return redis.call('EXISTS', KEYS[3]) == 1 and note_removals(redis.call('GET', KEYS[3])) or { 1 }
end
if gen ~= ARGV[1] then return { 3, gen } end

local answer, taken = { 0 }, {}
for i = 3, #ARGV, 4 do
  local held = redis.call('HGET', KEYS[2], ARGV[i])
  if held and tonumber(string.match(held, '^%d+') or -1) > tonumber(ARGV[i + 1]) then
    answer[#answer + 1] = (i + 1) / 4
  else
    taken[#taken + 1] = i
  end
end
-- A tombstone's score is its time, negated: the old ones are those nearer to zero, but for the mark at -1.
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. (TOMBSTONE_TTL - now), '(-1', 'LIMIT', 0, PRUNE)
if #old > 0 then -- before the writes, which may bring one of them back
  redis.call('ZREM', KEYS[1], unpack(old))
  redis.call('HDEL', KEYS[2], unpack(old))
end
for _, i in ipairs(taken) do
  local member, version = ARGV[i], ARGV[i + 1]
  if ARGV[i + 2] == '0' then
    redis.call('ZADD', KEYS[1], -now, member)
    redis.call('HSET', KEYS[2], member, version .. '\0')
  else
    redis.call('ZADD', KEYS[1], ARGV[i + 2], member)
    redis.call('HSET', KEYS[2], member, version .. '\0' .. ARGV[i + 3])
  end
end
local at = math.max(time[1] * 1000 + math.floor(time[2] / 1000), 1 + (redis.call('HGET', KEYS[2], 'at') or 0))
if #taken > 0 then redis.call('HSET', KEYS[2], 'at', at) end -- always more than before, see known.go
return answer
