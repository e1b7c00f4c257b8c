package account

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// withWriter runs fn in a transaction that holds the user's writer lock and commits it. It fails with ErrBusy when a lock
// does not come free in time.
func (s *Service) withWriter(ctx context.Context, userID uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := store.WithWriterLock(ctx, s.deps.DB, userID, s.cfg.LockWait, fn)
	if errors.Is(err, store.ErrLocked) || busy(err) {
		return ErrBusy
	}
	return err
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
