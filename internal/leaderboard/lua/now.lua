-- The time of the server that has a board. It never writes.
-- KEYS[1] any key of the board
-- Returns seconds.

return tonumber(redis.call('TIME')[1])
