// Package privacy keeps what a user's mode promises: the cached mode by which ingest strips early, the erasures that a
// change of mode makes in its transaction, and what a viewer may read ([See]).
//
// # The guarantee
//
// After a mode change has answered, no table, archive, cache, log line or trace holds a path, project or key count of a
// user who is not on full, nor any new event of a user on off, whatever was in flight.
//
// Postgres alone is authoritative. The cache may only strip: an entry that is stale, resurrected from an old file or
// missing can cost a user on full the detail of some events for a moment, but never leaks and never drops an event.
// Whether an event is kept, and how much of it, is decided by the mode that the storing transaction reads.
//
// # Two locks
//
// The storing transaction and the change of mode exclude each other through a lock per user, the ingest lock: every
// commit group takes it shared, in a statement of its own, and reads the modes in a later one; a change takes it alone.
// So a group either commits before the change reads what there is to erase, or reads the mode that the change left.
//
// The ingest lock is waited for by a change (bounded by lock_timeout) and only tried by ingest. A change that waits in
// the queue turns new shared attempts away, so a steady stream of uploads cannot starve it; and a group that was turned
// away leaves that one user out and tries again, so nobody else waits.
//
// Finalizing, deleting and changing exclude each other through a second lock, the writer lock, always taken first. Were
// there one lock for both, every upload of a user would wait while that user is finalized.
//
// # The cache
//
// One entry per user, "version:mode", for a minute. The version is the user's in Postgres, so that writers which arrive
// in the wrong order cannot put an old mode back: [Cache.Put] refuses an older version than the one that is there, and
// [Cache.Fill] writes only where there is nothing, and only what was read a moment ago. An entry is written on change,
// never deleted: a deleted entry would be free for a filler that read the mode before the change.
//
// A change to a stricter mode is put before the commit and again after it; a change to a looser one only after it. So
// there is no moment at which the cache is looser than the database, while Redis answers. When it does not answer, the
// change is made all the same, and the entry that it could not replace is gone within a minute.
//
// What must never break: nothing may be kept, dropped or shown because of a cached mode.
package privacy
