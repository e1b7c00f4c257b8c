package writebehind

import (
	"strconv"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// clusterShards is over how many slots the records of one counter are spread on a cluster. Each is asked for by every sweep,
// so there are few: with no traffic a process is to send next to nothing.
const clusterShards = 2

// debounceKeys are the keys of one shard of a debounced counter. They carry its hash tag, so that one script may touch them
// on a cluster. What is stored under them may change only together with their prefix: two releases may run side by side.
type debounceKeys struct {
	deltas     string // hash: record -> delta
	due        string // sorted set: record -> when it is due, ms by Redis's clock
	processing string // hash: record -> flush id, when it was taken (ms), delta
}

// shardedKeys are the keys of all shards of a counter.
func shardedKeys(rdb redis.UniversalClient, name string) []debounceKeys {
	n := 1
	if _, ok := rdb.(*redis.ClusterClient); ok {
		n = clusterShards
	}
	keys := make([]debounceKeys, n)
	for i := range keys {
		tag := "{wb:" + name + ":" + strconv.Itoa(i) + "}"
		keys[i] = debounceKeys{deltas: tag + ":deltas", due: tag + ":due", processing: tag + ":processing"}
	}
	return keys
}

// shardOf is where a record stands. Records are random ids: any byte of them spreads evenly.
func shardOf(record uuid.UUID, shards int) int { return int(record[len(record)-1]) % shards }

// byShard groups records.
func byShard(records []uuid.UUID, shards int) [][]uuid.UUID {
	groups := make([][]uuid.UUID, shards)
	for _, r := range records {
		s := shardOf(r, shards)
		groups[s] = append(groups[s], r)
	}
	return groups
}
