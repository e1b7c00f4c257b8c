-- The ranks of some users on one board. It never writes.
-- KEYS[1] sorted set  KEYS[2] hash
-- ARGV[1..] members, 1 to 101
-- Returns {} when there is no whole board, else {generation, milliseconds of the last publication, ranks}: for each member
-- its rank, or 0 when it has no place.

local generation = mark()
if not generation then return {} end
local ranks, known = redis.call('ZMSCORE', KEYS[1], unpack(ARGV)), {}
for i, score in ipairs(ranks) do
  if not score or tonumber(score) <= 0 then
    ranks[i] = 0
  else
    known[score] = known[score] or redis.call('ZCOUNT', KEYS[1], '(' .. score, '+inf') + 1
    ranks[i] = known[score]
  end
end
return { generation, tonumber(redis.call('HGET', KEYS[2], 'at')), ranks }
