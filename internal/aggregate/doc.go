// Package aggregate turns hot events into sessions, totals and streaks.
//
// # Guarantee
//
// What this package writes is a pure function of the set of accepted events, the users' zones and their modes. Order of
// arrival, batching, retries, duplicates, late uploads, the number and timing of aggregators, and crashes change nothing:
// once every event is used, the sessions are those that one pass over the whole set would have built.
//
// # How
//
// The rules of time are pure and live in fold.go, build.go, days.go and share.go. They know no database and no clock.
//
// A user is finalized in one transaction (finalize.go):
//
//  1. Take the user's writer lock, by a statement of its own. Who does not get it leaves the user to whoever has it.
//  2. Read, by later statements, what is hot of the user, and which of its runs have ended.
//  3. Read the archives of the sessions that those runs touch: late events, merges and repairs are this ordinary path.
//  4. Build the sessions of both together, and replace what stood there: sessions, their seconds, details, archives.
//  5. Move the totals by the difference between the seconds that stood there and those that stand there now.
//  6. Raise the user's version and leave an outbox row, so that boards will follow.
//  7. Delete the events that were used, by their surrogate keys, and say anew where the user has hot ones.
//
// Deletes (delete.go) are the same replacement with nothing in the place of a session, and a stretch of time that is
// remembered. The archive is pruned (prune.go) behind a horizon that Postgres keeps. Totals and streaks can be compared
// with the sessions behind them, and healed (verify.go, heal.go).
//
// Which users are due is found from hot_runs (scan.go): ingest appends one row per run of a batch, the scanner merges
// those that touch, and reads no event.
//
// # Concurrency
//
// Any number of aggregators may run, in any number of processes. The writer lock is the only thing they share. It is
// transaction-scoped, so a process that dies lets go of it. The lock must be taken before the snapshot that reads the
// events: under READ COMMITTED each statement has its own, and a snapshot older than the lock would see events that the
// previous holder has just used, and count them again.
//
// Ingest takes no part in this: it only appends. An event that arrives while its user is being finalized is not in the
// snapshot, so it is neither used nor deleted, and its row in hot_runs makes the user due again.
//
// # What must never break
//
//   - Events are deleted only in the transaction that used them, and only those that were read.
//   - Every hot event lies in a stretch that some row of hot_runs names, or its user would never be due. A row is
//     committed with its events, and read before the events are; so a finalize may delete every row that it read, if it
//     leaves one for each run that stays open. A scanner that merges rows deletes only what the merged one covers. A row
//     that stands for nothing any more, which either may leave behind, costs one look and is gone.
//   - Totals change only together with the session seconds that they add up.
//   - A user whose data fails is set aside with backoff (failures.go) and holds up nobody.
//   - No statement grows with the length of a session: archives are written in chunks, deletes in slices.
package aggregate
