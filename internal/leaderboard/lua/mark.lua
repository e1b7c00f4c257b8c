-- Put before every other script of this package. It reads and never writes.
-- KEYS[1] sorted set  KEYS[2] hash, of a board or of a build aside
-- mark() returns the generation, or nil when the two keys are not a whole board of this server: one is missing or of
-- another generation, or the server was restarted or promoted since and may have lost its last writes.

local function run_id()
  local info = redis.pcall('INFO', 'server') -- an ACL may forbid it: then restarts go unseen, see doc.go
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
end

local function mark()
  local held = redis.call('HMGET', KEYS[2], 'gen', 'run')
  if not held[1] or not redis.call('ZSCORE', KEYS[1], 'gen:' .. held[1]) then return nil end
  if held[2] ~= run_id() then return nil end
  return held[1]
end
