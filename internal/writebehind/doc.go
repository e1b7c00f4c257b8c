// Package writebehind gathers small changes in Redis and applies them to Postgres in bulk, each exactly once.
//
// # Guarantee
//
// What an accepting script has written is applied once, whatever dies: a process at any point, or Postgres for however long.
// A Redis that loses its memory loses what it held; with an append-only file that is what its fsync policy allows (a second,
// by default). What it undoes by that may be a taking: then a batch that was applied gathers anew and is applied again. So it is
// when a replica takes over. Postgres is authoritative for what was applied, Redis for what was not.
//
// # The way of a batch
//
// A buffer is three keys of one shard: buf, into which scripts of other packages gather (one HINCRBY or HSET); proc, the
// batch that is being flushed; and meta, its flush id.
//
//  1. Postgres is asked for its time. So nothing is taken while it is away.
//  2. take.lua renames buf to proc and stores a random flush id beside it; if there is a proc, it is the batch, under the id
//     it has. The rename loses nothing: a change is either in the batch or gathers anew.
//  3. The batch is read. Each step of the scan asks whose batch it is reading, and from which server, since a cursor means
//     nothing to another one.
//  4. One transaction inserts the flush id and applies the batch. A flusher that finds the id there applies nothing; one that
//     comes at the same time waits for the first one's end.
//  5. done.lua removes proc and meta, if they are still of that flush and nobody took it since.
//
// A process that dies leaves a batch and its id. Whoever comes next takes the same batch under the same id: if it was
// committed, it is found to be known and removed; if not, it is applied.
//
// # When a flush id may be forgotten
//
// Who took a batch may have been stopped for any time before it goes on. Three things bound what it can still do:
//
//   - A batch is applied only within an hour, by Postgres's clock, of when Postgres was asked in step 1, which was before the
//     taking. What comes later is refused (ErrStale) and taken again, under the same id, by whoever flushes next. A
//     transaction that stands still is ended by the server within a minute.
//   - Who finds an id to be known renews its date.
//   - Only the last one who took a batch may remove it.
//
// So once a batch is gone from Redis, everybody else took it before the one who removed it, and that one had the id
// committed, or renewed, after its own taking: an hour after the date of the id nobody can apply the batch any more. A batch
// that is not gone is in Redis. Ids are kept for a week, and longer while Redis holds them, which is asked before they are
// deleted. An outage of any length therefore neither loses a batch nor applies it twice.
//
// # Cost
//
// A look finds nothing with one EXISTS per shard: one server is one shard, a cluster is a few (redisconn.Shards). The kinds
// share the tags of the users' shards, so the number of kinds does not matter.
//
// # Order that must not change
//
//   - Time before taking, taking before reading, commit before removing.
//   - Ids in Redis are read before ids in Postgres are pruned.
//   - Keys are locked in order within a statement; a batch that loses a deadlock is tried again under its id.
package writebehind
