// Package leaderboard keeps the boards: who coded how much in one period, in one language or in all. The totals in
// Postgres are the truth; a board in Redis is a copy of them that answers faster, and that may be lost at any moment.
//
// # Guarantee
//
// A page comes from a whole board or from Postgres, never from part of a board. While the outbox is empty, the board of
// every kept span holds exactly the users who are shown and have seconds in that span and language, with the seconds of
// their totals. A board never goes back to an older state of a user, whatever is stopped, woken, retried or lost.
//
// # What a board is
//
// A Board is a calendar.Span and a language ("" for all). It has two keys, which share the board's hash tag:
//
//   - a sorted set: member = user id in its 36-character form, score = seconds. Ties are ordered by member, descending;
//     both Redis and Postgres compare these bytes alike.
//   - a hash: field = user id, value = the user's version and what a page shows of the user (see Facts). So one script
//     reads a whole page in one round trip.
//
// The completeness mark is a random 128-bit generation. It lies in both keys (a field of the hash, and a member of the
// sorted set with score -1), so that the loss of either is seen. Beside it the hash holds the run id of the server that
// it was made on. A server that was restarted or promoted may have lost its last writes while the mark survived, so a
// board of another run id does not count as whole either. Scripts see all this through the one function in
// lua/mark.lua.
//
// A user who leaves a board leaves a tombstone: the version stays in the hash, and the member stays in the sorted set
// with the negated time of the removal (Redis's clock, seconds) as its score. Every range a page is made from therefore
// ends at score 0. Tombstones are pruned when they are a day old.
//
// While somebody builds the board there are a building token, a hash of notes, and two aside keys that are filled.
// Boards of days, weeks and months expire at the end of the second span after their own, when nobody publishes into them
// any more; the two keys expire at the same instant. Which boards are kept and published into is decided by Redis's clock,
// which also ends them: so every board there is, is written, whatever a process takes for the present. A reader's clock only
// decides whether Redis is asked.
//
// # Writing: the fence
//
// Only package outbox publishes. A publication holds absolute seconds, the version that they were read with, the
// generation that was learned before they were read, and the time of that read. The script refuses
//
//   - everything, when there is no mark: it writes no row (it removes what remains) and says whether somebody is building;
//   - everything, when the generation is another one. The board was built anew since, maybe from a later state than the
//     publication's, and its tombstones are gone;
//   - everything, when it was read more than an hour ago by Redis's clock: tombstones live for a day, so a publisher that
//     slept longer than they live must not write, nor count as done what was read for boards of long ago;
//   - a single user, when the board holds a newer version of it, be it a place or a tombstone. Versions only grow, unless
//     Postgres is restored to an older state: package verify finds that.
//
// What is refused stays in the outbox.
//
// A removal must not wait: whoever goes off is answered once nobody is shown any more. While a board is being built, the
// script therefore notes removals and their versions for the swap. And a Redis that is full refuses to write tombstones, but
// still removes keys: then the whole board goes, and readers turn to Postgres. Growth waits for memory instead.
//
// # Building
//
// Builder makes a board that is not there (or is to be made again): take the token, remove the board, read the totals
// page by page, fill the aside keys, rename them into place. In detail, and why it is right:
//
//   - The token is the new generation. It expires unless each chunk renews it, and it is never taken over: a builder
//     whose token is gone finds that out in the script that would have written, discards its aside keys and gives up.
//   - A client may send any of these scripts again, and a first copy may arrive whenever it likes. Begun twice is begun: the
//     second time touches nothing. The end of a build is remembered, for longer than begin may be late by Redis's clock, so
//     that no copy of it takes a finished board down or starts a build that nobody fills, for a copy of the swap to put in
//     place.
//   - From the removal to the swap there is no mark, so nobody publishes into the board, and whoever changes meanwhile
//     stays in the outbox. A change that was published before the removal was committed before every page was read, so
//     the walk sees it. Hence a walk by (seconds, user) over moving totals may miss or repeat only users who are pending,
//     and these are published after the swap.
//   - Whoever was taken in and left since was noted, and swap.lua puts a tombstone of the noted version in the place of what
//     the builder read, unless that is of a newer version: somebody who left, and came back before the builder read. A note
//     only makes the swapped board right from its first moment. The user stays in the outbox, since the note goes with a
//     build that fails; and a note of an older version than the truth hides only somebody who is pending. Notes carry the
//     generation of their build. Without them, or with another build's, the build is given up.
//   - A publication to a board that has neither mark nor token counts as done: whoever builds it later reads later. With a
//     token it does not, since that builder may have read before.
//   - The aside keys carry the mark from the start. If one is evicted, or Redis restarts, the next chunk or the swap sees
//     it and the build is given up.
//   - Tombstones are not carried over. The generation fences those who would need them.
//
// Memory stays bounded by a page of rows, here and in Redis's scripts.
//
// # Reading
//
// Reader serves kept spans from Redis and everything else from Postgres, and kept spans too when the board is not whole
// or Redis does not answer; after one failure it leaves Redis alone for a moment. It never builds. Few reads of Postgres run
// at a time, and the others are told to come back: a deep page costs as much as the board is long. Rank is one more than
// the number of users with more seconds (1, 2, 2, 4). Streaks and deltas are decided when read.
//
// Deltas need the ranks of a page's users in the span before, which costs more than the page. That board hardly changes any
// more; the one before the previous span's is not kept, but right for as long as it lives. So a page asks in the same round
// trip which stand that board is at, its generation and the time of its last publication, and takes ranks that it knows of
// the same stand. publish.lua makes that time grow with every publication, so that no change, a change of mode least of all,
// goes unseen.
//
// A cursor is a place (seconds, user), not an index: whoever did not move is neither repeated nor missed, whatever others
// do. Boards are public and user ids are not, so its user is not the last entry's. It is a place between that entry and the
// next one, which means the same, holds no more of the id than tells the two apart, and needs neither of them to stay.
//
// Only languages that have boards are shown as somebody's top language: other names are free text.
//
// # Failures
//
//	what happens                         what is seen            what repairs it
//	one key of a board evicted, FLUSHALL Postgres answers        next cycle's EnsureKept builds
//	Redis restarted, with data or not    Postgres answers        run id or mark differ: built anew
//	the same, and an ACL forbids INFO    boards of the old file  a check (verify), or the next publish of each
//	                                     unless a key is gone    user; building anew by hand
//	Redis down, hung or cut off          Postgres answers        nothing is lost: the outbox keeps all
//	Redis full                           boards of those who     memory: then the outbox publishes, and what was
//	                                     leave: Postgres answers dropped is built anew; others stay behind
//	notes of a build lost                Postgres answers        the swap gives the build up; built anew
//	builder killed                       Postgres answers        token and aside keys expire; built anew
//	builder stopped, woken after another nothing                 its token is gone: it discards
//	publisher stopped, woken later       nothing                 refused by version, generation or age
//	a process's clock wrong              nothing                 no board depends on it
//	Redis's clock set back by days       boards of days to come  they are built anew by hand, or their users
//	                                     may fall behind         change once the days have come
//	two failovers, back to a server that  boards behind by what   the next publish of those users, or
//	kept running, within one cycle        was lost                building anew by hand
//	Postgres restored to an older state  boards too new          rows stay pending (refused); package verify raises the
//	                                                             versions, or boards are built anew by hand
//	hash tag's slot moved (Cluster)      Postgres answers        run id differs: built anew
//
// # What must never break
//
//   - Nothing but swap.lua gives a board its mark, and nothing writes members into a board without checking it.
//   - The generation is learned, and Redis's time read, before the totals are.
//   - Version, seconds and facts of a publication or a page come from one statement.
//   - Every script names all its keys, and they share a hash tag.
//   - A page never reaches a score of 0 or less.
package leaderboard
