package store

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// WriterLock is the advisory lock key of whoever writes a user's sessions, archive, totals or mode. Two users may share
// a key (it is a 64-bit hash): then one waits for the other, which is harmless.
func WriterLock(userID uuid.UUID) int64 { return lockKey("commma/writer", userID) }

// IngestLock is the advisory lock key that ingest shares and a mode change or delete takes alone. It lies in a key space
// of its own, so that finalizing a user never holds up the user's uploads.
func IngestLock(userID uuid.UUID) int64 { return lockKey("commma/ingest", userID) }

func lockKey(space string, userID uuid.UUID) int64 {
	sum := sha256.Sum256(append([]byte(space), userID[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
