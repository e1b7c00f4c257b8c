package admission

import (
	"encoding/hex"
	"net/netip"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/redisconn"
)

// authKey holds the hash of a user's token. The hash tag is that of the user's shard, as in every key that is asked with it.
func authKey(n redisconn.Shards, userID uuid.UUID) string {
	return "auth:" + n.Tag(userID) + ":" + userID.String()
}

// userLimitKey names a user's limit to redis_rate, which puts "rate:" in front. A part of the token's hash keeps those
// who only know the user's id from using it up.
func userLimitKey(n redisconn.Shards, userID uuid.UUID, h Hash, scope Scope) string {
	return n.Tag(userID) + ":" + userID.String() + ":" + string(scope) + ":" + hex.EncodeToString(h[:8])
}

// addrLimitKey names the limit of an address.
func addrLimitKey(addr netip.Addr, scope Scope) string {
	return "{" + addrGroup(addr) + "}:" + string(scope)
}

// addrGroup is what counts as one address: an IPv4 address, or a /64 of IPv6, which is what one subscriber is given at
// least. Requests without an address share one group.
func addrGroup(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return "none"
	}
	if addr.Is4() {
		return addr.String()
	}
	p, err := addr.Prefix(64)
	if err != nil {
		return "none"
	}
	return p.String()
}
