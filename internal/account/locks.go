package account

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// How long to pause between two attempts at the writer lock: a finalize takes milliseconds, so the first are short.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = 100 * time.Millisecond
)

// errHeld is how a transaction that did not get the writer lock ends.
var errHeld = errors.New("the writer lock is held")

// withWriter runs fn in a transaction that holds the user's writer lock and commits it. Each attempt at the lock is a
// transaction of its own, so that a connection is not kept while nothing happens, and so that whatever fn reads is newer
// than the lock. It fails with ErrBusy when the lock does not come free in time.
func (s *Service) withWriter(ctx context.Context, userID uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	waiting, stop := context.WithTimeout(ctx, s.cfg.LockWait)
	defer stop()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := store.WithTx(ctx, s.deps.DB, func(ctx context.Context, tx pgx.Tx) error {
			free, err := dbsqlc.New().AccountTryWriterLock(ctx, tx, store.WriterLock(userID))
			if err != nil {
				return fmt.Errorf("try writer lock: %w", err)
			}
			if !free {
				return errHeld
			}
			return fn(ctx, tx)
		})
		switch {
		case busy(err):
			return ErrBusy
		case !errors.Is(err, errHeld):
			return err
		case !sleep(waiting, pause):
			return ErrBusy
		}
	}
}

// lockIngestTx waits for the user's ingest lock and takes it alone, in a transaction that holds the writer lock. The
// bound on the wait also holds for row locks later in the transaction.
func (s *Service) lockIngestTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	q := dbsqlc.New()
	ms := strconv.FormatInt(s.cfg.LockWait.Milliseconds(), 10)
	if err := q.AccountSetLockTimeout(ctx, tx, ms); err != nil {
		return fmt.Errorf("set lock timeout: %w", err)
	}
	if err := q.AccountLockIngest(ctx, tx, store.IngestLock(userID)); err != nil {
		return fmt.Errorf("wait for ingest lock: %w", err)
	}
	return nil
}

// sleep pauses for d, and is false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
