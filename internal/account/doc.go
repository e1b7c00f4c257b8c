// Package account is the one place that composes what must happen to a user in several parts of the system in one
// transaction: creation, a change of mode, of zone or of handle, deletion. It owns no rule of those parts; each exports what it must
// do as a function that takes the transaction.
//
// # A change of mode
//
// One transaction, in an order that must not change:
//
//  1. The writer lock, tried, each time in a fresh transaction, for a bounded time.
//  2. The ingest lock alone, waited for in the queue, bounded by lock_timeout.
//  3. Only now, by later statements, what there is to change is read: a snapshot older than the locks could miss events
//     that were stored a moment ago, and they would keep their paths.
//  4. From full: paths, projects and key counts are erased from all tables. What they erase changes no session but for its
//     details: events are told apart and folded by everything else first, and a session is made of everything else.
//  5. To off: what has ended becomes sessions, then the open run's events are dropped. Where it cannot become sessions on
//     the spot, or not in time, only the open run's events are dropped, and the aggregator does the rest. It comes after 4,
//     so that the size of what is erased cannot keep anybody from leaving.
//  6. The mode, and the user's next version.
//  7. To off: when the user was last seen is forgotten, and nothing more is noted.
//  8. The outbox row.
//  9. To a stricter mode: the cache, at the version that is about to be committed.
//
// The cache is written inside the transaction, which holds the locks for one more round trip (bounded), because only
// there the version is known, and because a change that did not get its locks must not have cost any detail.
//
// After the commit the cache is written again, or for the first time when the mode became looser, and the user's boards
// are published, all before the answer. Neither can undo the change, for neither decides anything: the storing
// transaction reads the mode itself, and the outbox row stays until the boards have it. But a user who went off, or came
// back, is not told that all is well while boards still say otherwise: that is ErrNotShown. It does not matter there whether
// a page would come from a board at that moment; a store of boards that was cut off may be back in the next.
//
// A change that answers ErrBusy changed nothing. The same mode again changes nothing and writes the cache and the boards
// once more, so that repeating a request whose answer was lost, or was ErrNotShown, is always right.
//
// # Deletes
//
// A delete publishes before it answers too. It cannot be repeated: the second one finds nothing. So it answers ErrNotShown
// only if the boards' store is there and was not brought up to date; when the store does not answer, the delete is done,
// pages come from the totals, which no longer have what was deleted, and the outbox sees to the rest.
package account
