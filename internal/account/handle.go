package account

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// A handle that was given up is kept for who had it, so that whoever looks for them does not find somebody else: it leads
// nowhere, and they alone can take it back. After that time, or when they delete their account, anybody can have it.
const (
	FormerHandleDays = 90
	// maxFormerHandles bounds the handles that a user can keep from others without having them.
	maxFormerHandles = 5
)

// ValidateHandle says whether handle has the form of one. It is an *InvalidError if not.
func ValidateHandle(handle string) error {
	if !activity.IsHandle(handle) {
		return &InvalidError{Field: "handle", Message: "must have 1 to 39 letters, digits and hyphens"}
	}
	return nil
}

// changeHandleTx gives a user another handle, in a transaction that holds the writer lock. The same handle again changes
// nothing. It fails with ErrUnknownUser, ErrHandleTaken or ErrHandleChanges.
func (s *Service) changeHandleTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, handle string) error {
	q := dbsqlc.New()
	// For the wait for somebody who is about to give the handle up, or to take it.
	if err := q.AccountSetLockTimeout(ctx, tx, strconv.FormatInt(s.cfg.LockWait.Milliseconds(), 10)); err != nil {
		return fmt.Errorf("set lock timeout: %w", err)
	}
	now, err := q.UserGetHandle(ctx, tx, handle, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrUnknownUser
	}
	if err != nil {
		return fmt.Errorf("read handle: %w", err)
	}
	switch {
	case now.Handle == handle:
		return nil
	case now.Kept >= maxFormerHandles:
		return ErrHandleChanges
	}
	version, err := q.UserUpdateHandle(ctx, tx, dbsqlc.UserUpdateHandleParams{ID: userID, Handle: handle, Days: FormerHandleDays})
	if store.IsUniqueViolation(err) {
		return ErrHandleTaken
	}
	if err != nil {
		return fmt.Errorf("update handle: %w", err)
	}
	if err := claimHandleTx(ctx, tx, userID, handle); err != nil {
		return err
	}
	if err := s.deps.EnqueueFunc(ctx, tx, userID, version); err != nil {
		return fmt.Errorf("enqueue user: %w", err)
	}
	return nil
}

// claimHandleTx comes after the statement that gave a user a handle, and fails with ErrHandleTaken if that is kept for
// somebody else. The order matters: two users can only want one handle one after the other, for it is unique, and what the
// one before has left behind is seen by a statement that begins after that wait, not by the one that waited.
func claimHandleTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, handle string) error {
	q := dbsqlc.New()
	kept, err := q.UserHandleIsKept(ctx, tx, handle, userID)
	if err != nil {
		return fmt.Errorf("look for former handle: %w", err)
	}
	if kept {
		return ErrHandleTaken
	}
	if err := q.UserDeleteFormerHandle(ctx, tx, handle, userID); err != nil {
		return fmt.Errorf("delete former handle: %w", err)
	}
	return nil
}
