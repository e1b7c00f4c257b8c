// Package lastseen keeps when each user was last seen: when the user's token last came with a request.
//
// A touch is one script in the round trip that the admission makes anyway (Seen.Queue): it compares the token, asks the
// marker, and writes into a buffer that package writebehind drains into user_counters. So a request writes to no database,
// and a user who is busy all day writes one field every five minutes.
//
// # Guarantee
//
// What is stored never moves backwards, and once a flush has ended it is no older than any touch that the flush took. A touch
// is at most five minutes older than the user's last request, as long as Redis answers and the mode is cached; a request that
// finds the mode missing leaves it to the one that fills it. Redis away, hung or full: the request goes on, and the touch is lost.
//
// # Off
//
// Nothing is kept of a user on off. The script asks the cached mode, which the change to off writes before it commits; the
// statement asks the column keeps of the row it writes, which the change sets. It is not the mode in users: a flush that had
// to wait for the row would judge by the mode from before the wait.
//
// A reader that wants the newest value asks Redis first and Postgres after that (Seen.At): a value moves from buf to proc to
// Postgres, so it is met on the way.
package lastseen
