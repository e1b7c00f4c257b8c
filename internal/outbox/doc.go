// Package outbox brings the boards up to date with the totals.
//
// # Guarantee
//
// Whoever changes what boards show of a user (finalize, delete, mode, handle, zone) raises the user's version and calls
// Enqueue in the same transaction. From then on the user is pending until every board has taken that version or a newer
// one. A crash of any process, of Redis or of Postgres loses no row; publishing twice changes nothing.
//
// Postgres is authoritative for who is pending; nothing is remembered elsewhere. Package leaderboard is authoritative for
// what a board accepts.
//
// # A round
//
// The Publisher takes pending users in pages and repeats, a bounded number of times per page:
//
//  1. Redis's time, which decides the published spans. The generations of the boards are known from earlier rounds.
//  2. One statement reads, per user, the version, the facts and the totals of the published spans. Totals in no board
//     (languages that are not listed) are not read.
//  3. The rows are grouped by board, and all boards' scripts are sent in pipelines. A user on off is removed from the
//     board of each of its totals. A user who no longer exists has no totals to go by, and is removed from every board
//     that Redis holds: published spans times listed languages, asked in one pipeline.
//  4. Who was taken by every board is done: totals that became zero are deleted if the version is still that one, then
//     the outbox row is deleted at exactly the published version.
//  5. Generations that were other ones are noted. Who was not done goes into the next round and is read again.
//
// Who is left after the rounds stays pending for the next cycle. A board that Redis has nothing of, and that nobody is
// building, takes everything: whoever builds it later reads the totals later. Publishing builds no board itself, so that
// a mode change never waits for one; Cycle builds what is missing, before and after, and whoever runs it does so when
// publications or readers have missed a board. A user who only leaves a board that is
// being built counts as shown for those who must not answer before (PublishUsers), since the board will come up without the
// user. The row stays nevertheless, for the build may fail and take the note of it along.
//
// The published spans are the kept ones and the one before, at the time of the round by Redis's clock: those of which Redis
// can have a board at all, since boards expire by the same clock. The process's own clock decides nothing. A round that took
// so long that these spans are past is refused by its age, also where there is no board.
//
// # Concurrency
//
// Any number of publishers may run. Rows are not claimed: a claim would have to outlive network calls, and a publisher
// that dies with claims would hold users up. Two that publish the same user do the same thing twice, or the fence refuses
// the older one. Pages are walked by user id from the start in each cycle, so a row that appears behind the walk is only
// later, never lost. Deleting outbox rows and deleting zero totals are two transactions, each in key order and skipping
// what others have locked. They never wait for a finalize that holds one of the two and wants the other, nor for each
// other.
//
// # Order that must not change
//
//   - Generation and time before totals; totals before scripts; scripts before deletes.
//   - Zero totals are deleted only in a statement that sees the published version, and holds it by a lock. Otherwise a
//     total that became zero after the read, or was more than zero in between, would vanish before its removal was
//     published, and the board would keep it.
//   - An outbox row is deleted at the version that was published, or not at all.
//
// # Failures
//
//	Redis away              the page's users stay pending, the error is returned, the cycle ends
//	one board's key broken  its users stay pending, the others are published, the error is returned
//	board missing           done, and the cycle builds it; while somebody is building it, its users stay pending
//	Redis full              boards that somebody is to leave are dropped; users who grow stay pending, the error is returned
//	refused as older        stays pending and is read again in the next round; after a restore of Postgres for ever, until
//	                        package verify raises the user's version
//	crash after scripts     published again in the next cycle
//	crash after clearing    nothing is left to do
package outbox
