package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// WriterLock is the advisory lock key of whoever writes a user's sessions, archive, totals or mode. Two users may share
// a key (it is a 64-bit hash): then one waits for the other, which is harmless.
func WriterLock(userID uuid.UUID) int64 { return lockKey("commma/writer", userID) }

// IngestLock is the advisory lock key that ingest shares and a mode change or delete takes alone. It lies in a key space
// of its own, so that finalizing a user never holds up the user's uploads.
func IngestLock(userID uuid.UUID) int64 { return lockKey("commma/ingest", userID) }

// CountLock is the advisory lock key of whoever adds to what is counted of a user with others: groups, invitations, and whom
// the user follows. Without it two requests at once could each find room for one more.
func CountLock(userID uuid.UUID) int64 { return lockKey("commma/count", userID) }

func lockKey(space string, userID uuid.UUID) int64 {
	sum := sha256.Sum256(append([]byte(space), userID[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// ErrLocked means that somebody else holds a user's writer lock.
var ErrLocked = errors.New("the writer lock is held")

// TryWriterLock takes a user's writer lock for the rest of the transaction, if it is free, by a statement of its own:
// whatever is read by later statements is newer than the lock.
func TryWriterLock(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (bool, error) {
	free, err := dbsqlc.New().LockTryWriter(ctx, tx, WriterLock(userID))
	if err != nil {
		return false, fmt.Errorf("try writer lock: %w", err)
	}
	return free, nil
}

// How long to pause between two attempts at the writer lock: a finalize takes milliseconds, so the first are short.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = 100 * time.Millisecond
)

// WithWriterLock runs fn in a transaction that holds the user's writer lock, and commits it. Each attempt at the lock is
// a transaction of its own, so that no connection is kept while nothing happens. It fails with ErrLocked when the lock
// does not come free within wait, or before ctx ends.
func WithWriterLock(ctx context.Context, db Beginner, userID uuid.UUID, wait time.Duration, fn func(ctx context.Context, tx pgx.Tx) error) error {
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := WithTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
			free, err := TryWriterLock(ctx, tx, userID)
			if err != nil {
				return err
			}
			if !free {
				return ErrLocked
			}
			return fn(ctx, tx)
		})
		if !errors.Is(err, ErrLocked) || clock.Sleep(waiting, pause) != nil {
			return err
		}
	}
}
