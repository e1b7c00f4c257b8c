// Package verify looks for drift in production: sessions against their seconds; totals, streaks and numbers of sessions
// against sessions; boards against totals. With healing it repairs what it finds through the outbox, as any other change goes.
//
// # Guarantee
//
// A pass over users and boards finds every disagreement that stood during the whole pass and reports none that a writer or
// publisher beside it could have made. On boards that is: a place with other seconds than the total, of one second or more;
// a total without a place, a place without a total; a place with another version or other facts (handle, streak, zone, top
// language) than the user's, or with nothing but seconds; and what would make a board refuse its user for ever, pending or
// not: a version newer than the user's. What a board holds of users beside its places and tombstones shows nowhere and is not
// looked at. A pass never holds a lock while it compares, and no statement of it covers more than a page of users.
//
// # Healing
//
// The truth is the seconds of sessions, as long as these add up to the duration of each session. A user is healed in one
// transaction under the writer lock, which is tried: totals, streak and number of sessions from the sessions, a newer
// version, the outbox row. Then the user is published. A board that alone is wrong is healed in the same way. A place
// without a total gets a total of zero, which makes the publisher remove it. Where a board holds a newer version than the
// user's (Postgres was restored to an older state) the user's version leaps over whatever boards may hold. A board with a
// member that is no user's, or with a version that nobody can have, is built anew.
//
// Where a session does not add up, its seconds are restored from the day totals if these explain its duration exactly.
// Else nothing of the user is changed, and it stays reported.
//
// # Failures
//
//	killed in between          what was healed is committed and pending; the rest is found by the next pass
//	a user left with drift     its places are compared with its sessions: what is wrong with them is reported as well
//	Redis away                 users are healed and stay pending; boards end the pass with an error
//	the writer lock is held    tried again for a bounded time, then left and reported
//	a board built meanwhile    counted as unbuilt; it was made from totals just now
package verify
