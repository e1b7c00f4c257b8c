// Package replay uploads a file of recorded events as an editor would: per user, in batches, over the public API.
//
// The file has one JSON object per line: an event as POST /v1/ingest takes it, and "user", which says by whose token it
// is uploaded. It is read twice. Load checks every line before anything is sent and keeps 16 bytes a line, so that the
// file may be far larger than memory; Run reads the events again as it sends them.
//
// Users upload in parallel and each for itself: one whose token is refused does not stop the others. Within a user the
// batches go one after another, in the order of the file (or shuffled, for tests). Answers are treated so that nothing
// is lost that can be sent: 413 halves the batch down to a single event, 429 and 503 wait as long as the server asks,
// other failures of server or network are tried again with growing pauses. Since the server takes a repeated event
// once, a whole replay may be run again after it failed.
package replay
