package writebehind

import "github.com/commma/commma/internal/redisconn"

// Keys are the keys of one buffer in one shard. They carry the tag of the shard's users, so that a script that accepts for
// a user may write here.
type Keys struct {
	Buf  string // hash: what gathers
	Proc string // hash: the batch that is being flushed; nothing is added to it
	Meta string // hash: the batch's flush id, and how often it was taken
}

// KeysOf are the keys of the buffer of this name in a shard.
func KeysOf(name string, shard int) Keys {
	prefix := "wb:" + redisconn.ShardTag(shard) + ":" + name
	return Keys{Buf: prefix + ":buf", Proc: prefix + ":proc", Meta: prefix + ":meta"}
}
