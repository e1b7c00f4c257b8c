-- Removes a batch that is in Postgres, if nobody took it since.
--
-- Who took it since finds the id recorded and removes it then. So all others took a batch before the one who removes it did,
-- which is what lets flush ids be forgotten; see doc.go.
--
-- KEYS[1] proc  KEYS[2] meta
-- ARGV[1] flush id  ARGV[2] how often it had been taken
-- Returns 1 when it was removed, else 0.

local held = redis.call('HMGET', KEYS[2], 'id', 'taken')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then
  return 0
end
redis.call('UNLINK', KEYS[1], KEYS[2])
return 1
