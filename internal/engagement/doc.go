// Package engagement is what people do to the sessions of others: kudos, comments and shares, and the counts of them that
// stand beside each session.
//
// # Guarantee
//
// Counters and pending deltas together are the number of rows of kudos and comments, in every snapshot and for every session:
// each transaction that changes one side changes the other. A share that was recorded counts once. Package writebehind decides
// when the counters follow; docs/write-behind.md says why nothing is lost or doubled.
//
// # Who may what
//
// A session is there for everybody unless its owner is on off; then for the owner alone. Who is on off gives and writes nothing
// new, may take back and delete, and what they wrote is shown to nobody else. Whoever acts holds the shared half of their own
// ingest lock: a mode change or a delete of theirs comes wholly before or wholly after, so that its answer can be relied on.
//
// # Order that must not change
//
//   - The user's lock, by a statement of its own, before the user's mode is read.
//   - The session's row, FOR KEY SHARE, before anything is added to it: whoever merges or deletes the session deletes its row
//     first, and moves or deletes what hangs on it by later statements, which see what was added.
//   - Counters, in the order of their keys, before deltas. A delta goes only together with the counters that it is added to.
//   - A flush that finds counters gone lets its locks go before it looks for the heir.
//
// # What is left to later statements
//
// A delta may be appended under the id of a session that is being merged, by who deletes a comment or a user at that moment.
// It is found by the alias, and verify looks there too. Deltas of sessions that do not exist are deleted by the flush.
package engagement
