package privacy

import (
	"github.com/google/uuid"

	"github.com/commma/commma/internal/redisconn"
)

// Key holds a user's cached mode. The hash tag is that of the user's shard, so that it can be asked together with whatever
// else an admission asks of that user, on one node of a cluster.
func Key(n redisconn.Shards, userID uuid.UUID) string {
	return "mode:" + n.Tag(userID) + ":" + userID.String()
}
