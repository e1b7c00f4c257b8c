package redisconn

import (
	"encoding/binary"
	"strconv"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// clusterShards is into how many hash tags the users' keys are spread on a cluster. What gathers in a shard is looked at by
// itself, twelve times an hour, so the number stays small: a process that has nothing to do must cost next to nothing.
// Changing it strands what has gathered under tags that are not asked any more: only while all buffers are empty.
const clusterShards = 4

// Shards is into how many parts the users' keys are spread. All keys of a user carry the tag of the user's shard, so that
// one script may touch them together with what gathers for all users of that shard.
type Shards int

// ShardsOf is 1 on a single server and more on a cluster. Every process that uses a Redis must find the same, so it follows
// from how Redis is opened and from nothing else.
func ShardsOf(rdb redis.UniversalClient) Shards {
	if _, ok := rdb.(*redis.ClusterClient); ok {
		return clusterShards
	}
	return 1
}

// Of is the user's shard, from 0.
func (n Shards) Of(userID uuid.UUID) int {
	return int(binary.BigEndian.Uint32(userID[12:]) % uint32(max(n, 1)))
}

// Tag is the hash tag of the user's shard.
func (n Shards) Tag(userID uuid.UUID) string { return ShardTag(n.Of(userID)) }

// ShardTag is the hash tag of a shard.
func ShardTag(shard int) string { return "{u" + strconv.Itoa(shard) + "}" }
