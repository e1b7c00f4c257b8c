package admission

import (
	"encoding/hex"
	"net/netip"

	"github.com/google/uuid"
)

// authKey holds the hash of a user's token. The hash tag is the user, as in every key that is asked with it.
func authKey(userID uuid.UUID) string { return "auth:{" + userID.String() + "}" }

// userLimitKey names a user's limit to redis_rate, which puts "rate:" in front. A part of the token's hash keeps those
// who only know the user's id from using it up.
func userLimitKey(userID uuid.UUID, h Hash, scope Scope) string {
	return "{" + userID.String() + "}:" + string(scope) + ":" + hex.EncodeToString(h[:8])
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
