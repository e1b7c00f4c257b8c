-- Adds to the delta of a record, and sees to it that the record is due.
-- KEYS[1] hash: record -> delta  KEYS[2] sorted set: record -> when it is due, ms
-- ARGV[1] record  ARGV[2] delta, not 0  ARGV[3] how far ahead it becomes due, ms  ARGV[4] how long after that its flusher
-- counts as dead, ms
-- Returns 1 when the caller must flush the record, 0 when somebody else is about to.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
local mine = not due or now > tonumber(due) + tonumber(ARGV[4])
-- Refused together when memory is full: the first write is one that needs some.
redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])
if mine then redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1]) end
return mine and 1 or 0
