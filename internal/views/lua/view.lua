-- Counts a view, once while the gate stands.
--
-- KEYS[1] gate of a viewer, a target and an hour  KEYS[2] buffer, a hash: target and day -> views
-- ARGV[1] field of the buffer  ARGV[2] life of the gate, seconds
-- Returns 1 when it was counted, 0 when the gate stood already.

if not redis.call('SET', KEYS[1], '', 'NX', 'EX', ARGV[2]) then return 0 end
redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
return 1
