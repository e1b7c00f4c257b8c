// Package admission decides whether a request may go on: who sends it, and whether that user, or that address, has not
// sent too many.
//
// # One round trip
//
// A good request costs one round trip to Redis and none to Postgres: the cached hash of the user's token, the cached
// privacy mode and the rate limit are asked together, and the user is noted as seen (package lastseen). All their keys carry
// the hash tag of the user's shard, so on a cluster they lie on one node. What else a request must ask of Redis about its
// user belongs into the same pipeline (see round.queue).
//
// # Who decides
//
// Postgres decides, Redis only saves the asking. A cached hash that equals the token's authenticates; a missing or
// another one decides nothing, so neither an evicted entry nor a stale one can turn a good token away. A token that was
// just issued is therefore never answered 401.
//
// The limit of a user is kept under the user AND the token's hash. It has to be asked before the token is known to be
// good, so a limit under the user alone could be used up by anyone who knows the user's id.
//
// # When a dependency fails
//
// Every step has a deadline, together far below the clients' 15 s. A Redis that hangs costs the requests that meet it
// first one bounded wait; then a circuit breaker answers for it until a single probe succeeds. Meanwhile Postgres
// authenticates, the mode comes from there too, and each process limits by itself, in bounded memory. Postgres is only
// missed by those whose token is not cached: they are told that the service is unavailable.
//
// # Failed authentications
//
// They are limited per address (a /64 of IPv6), in a question of its own that is asked only after a failure: a good
// request pays nothing for it, and is not turned away because somebody else behind its address guesses. An address over
// its limit costs Postgres nothing: until the time that it was told to come back, a token from there that is not cached
// is refused without asking. A good one is cached when its user was seen in the last minutes; otherwise it waits too.
//
// What must never break: no token and no secret part of one in an error, a log line, a metric or a key.
package admission
