-- Sees to it that a record is due whose deltas are kept elsewhere.
-- KEYS[1] sorted set: record -> when it is due, ms
-- ARGV[1] record  ARGV[2] how far ahead it becomes due, ms  ARGV[3] how long after that its flusher counts as dead, ms
-- Returns 1 when the caller must flush the record, 0 when somebody else is about to.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if due and now <= tonumber(due) + tonumber(ARGV[3]) then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 3600000) -- whose flusher could not take them out
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
return 1
