-- Writes a user's privacy mode, unless what is there has a newer version.
--
-- An equal version is replaced: it can only be the same change once more, or what a change left that did not commit.
--
-- KEYS[1]  mode:{shard}:user
-- ARGV[1]  version of the user in Postgres, a decimal integer below 2^53
-- ARGV[2]  the mode's name
-- ARGV[3]  time to live, in milliseconds
--
-- Returns 1 when it was written, 0 when a newer one is there.
local held = redis.call('GET', KEYS[1])
if held then
  local version = tonumber(string.match(held, '^(%d+):'))
  if version and version > tonumber(ARGV[1]) then
    return 0
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2], 'PX', ARGV[3])
return 1
