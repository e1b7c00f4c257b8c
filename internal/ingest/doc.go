// Package ingest takes batches of events in: it reads and validates a request's body, and stores what is good.
//
// # Guarantee
//
// Store returns without an error only when every event that it counts as received is committed in Postgres. When it
// returns an error the events may or may not be stored; sending the same batch again is always right, because copies of
// an event are folded when they are read.
//
// # How
//
// Decoding (body.go, decode.go, validate.go) is pure: bytes in, a Batch out. One bad event is rejected alone.
//
// Storing (writer.go, queue.go, group.go) gathers requests that arrive while others are being written into commit groups:
// one pipeline, one transaction and one flush of the log for up to 256 users. There is no artificial delay: an idle
// writer stores a request at once.
//
// The storing transaction takes a shared advisory lock per user, tried and never waited for; reads by later statements
// who exists and in which privacy mode; and inserts, stripped by that mode. So the mode that decides is never older than
// the lock, and a mode change, which takes the same lock alone, has nothing in flight once it holds it. A user who is
// locked leaves the group and is parked for a moment: the neighbours do not wait.
//
// # What must never break
//
//   - Ingest only appends. It updates no row, and no unique key covers what it inserts: it must never wait for, or
//     deadlock with, another transaction over the same user.
//   - Nothing is dropped because of a cached mode: the cache may only strip, the storing transaction decides.
//   - Users take turns: a flood of one waits behind the others' single requests.
//   - Every wait is bounded, far below the 15 seconds after which clients give up.
package ingest
