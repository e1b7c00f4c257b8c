// Package views counts how often profiles and sessions are looked at, and tells their owner.
//
// # What counts
//
// One view per viewer, target and UTC clock hour, by the clock of the process. A viewer is a user, or else an address (a /64
// of IPv6) with an agent. The owner's own looks do not count, nor what the viewer may not see: whoever records a view has
// answered the page, or would.
//
// # The gate
//
// A gate is a key that names viewer, target and hour by a keyed hash, so that Redis holds no address, no agent, and no list
// of who looked at whom. The key is random, made anew for each UTC day, and stands in Redis alone; a process keeps it for the
// hour it is in. Gate and count are one script and one round trip.
//
// # The way of a view
//
// The script adds one to a field of the buffer in the shard of the target's owner: owner, session or profile, and UTC day.
// Package writebehind drains the buffer. One statement adds a batch to session_counters, user_counters and view_days, so a
// page that was looked at four thousand times in five minutes is written once.
//
// What is no longer there is dropped. What belongs to an absorbed session goes to its heir, by the aliases that the merge
// left. A merge that commits while the statement waits for its rows has taken the row away, and its aliases are not in the
// statement's snapshot: those entries are resolved again, by a later statement of the same transaction, until the answer is
// the same twice.
//
// # When Redis does not answer
//
// The view is not counted and the request goes on: it waits a quarter of a second at most, and not at all for the two seconds
// after a failure.
package views
