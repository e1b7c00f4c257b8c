-- Takes what has gathered as a batch, or the batch that was taken before and is not done.
--
-- From then on the batch does not change: what is accepted later gathers anew. (Only the fields of a user who was deleted
-- may go.) Its flush id stays the same until it is done, whoever takes it and however often.
--
-- KEYS[1] buf  KEYS[2] proc  KEYS[3] meta
-- ARGV[1] a random flush id, for a batch that has none yet
-- Returns {} when there is nothing, else {flush id, how often it was taken, with this time}.

local id = redis.call('HGET', KEYS[3], 'id')
if redis.call('EXISTS', KEYS[2]) == 0 then
  if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('DEL', KEYS[3])
    return {}
  end
  redis.call('RENAME', KEYS[1], KEYS[2])
  redis.call('DEL', KEYS[3])
  id = nil
else
  redis.call('HDEL', KEYS[3], '') -- needs no memory: after a write Redis refuses nothing, so that a full one can be drained
end
if not id then
  id = ARGV[1]
  redis.call('HSET', KEYS[3], 'id', id)
end
return { id, redis.call('HINCRBY', KEYS[3], 'taken', 1) }
