package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/views"
)

// DeleteSession deletes a session of the user: its seconds leave totals and boards before this returns, and its events
// never count again, however late they arrive. It fails with aggregate.ErrNoSession, an *aggregate.AbsorbedError, or
// ErrBusy, having changed nothing; or with ErrNotShown, having deleted the session: then the same request again fails with
// ErrNotShown for as long as a board may still count it, and then with aggregate.ErrNoSession.
func (s *Service) DeleteSession(ctx context.Context, userID, sessionID uuid.UUID) error {
	err := s.withWriter(ctx, userID, func(ctx context.Context, tx pgx.Tx) error {
		return s.deps.DeleteSessionFunc(ctx, tx, userID, sessionID)
	})
	if errors.Is(err, aggregate.ErrNoSession) {
		// It may have been deleted a moment ago, with an answer that got lost or said that boards still count it.
		if err := s.publishDelete(ctx, userID); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return s.publishDelete(ctx, userID)
}

// DeleteUser deletes the user and everything that is kept of them, and takes them off the boards before it returns. The
// outbox keeps the id until the boards have followed. It fails with ErrUnknownUser or ErrBusy, having changed nothing; or
// with ErrNotShown, having deleted the user: then the same request again finds none.
func (s *Service) DeleteUser(ctx context.Context, userID uuid.UUID) error {
	err := s.withWriter(ctx, userID, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.lockIngestTx(ctx, tx, userID); err != nil {
			return err
		}
		return s.deleteUserTx(ctx, tx, userID)
	})
	if err != nil {
		return fmt.Errorf("delete user: %w", err)
	}
	s.forget(ctx, userID)
	return s.publishDelete(ctx, userID)
}

// publishDelete takes what was deleted off the boards, or does nothing if that is done. While the boards' store does not
// answer, a delete is as good as shown: pages then come from the totals, and the outbox is published before long once the
// store is back. Where the store is there and may show what was deleted, the caller hears it.
func (s *Service) publishDelete(ctx context.Context, userID uuid.UUID) error {
	if err := s.publish(ctx, userID); err != nil && !errors.Is(err, leaderboard.ErrAway) {
		return ErrNotShown
	}
	return nil
}

// deleteUserTx composes what each domain erases. It holds both locks: nothing of the user is in flight.
func (s *Service) deleteUserTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	q := dbsqlc.New()
	version, err := q.DeleteLockUser(ctx, tx, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrUnknownUser
	}
	if err != nil {
		return fmt.Errorf("lock user: %w", err)
	}
	if err := ingest.EraseUserTx(ctx, tx, userID); err != nil {
		return err
	}
	if err := aggregate.EraseUserTx(ctx, tx, userID); err != nil {
		return err
	}
	if s.deps.EraseUserFunc != nil {
		if err := s.deps.EraseUserFunc(ctx, tx, userID); err != nil {
			return err
		}
	}
	// After what hangs on sessions: rows of their counters are locked before those of users.
	if err := views.EraseUserTx(ctx, tx, userID); err != nil {
		return err
	}
	if err := recap.EraseUserTx(ctx, tx, userID); err != nil {
		return err
	}
	if err := q.DeleteUser(ctx, tx, userID); err != nil {
		return fmt.Errorf("delete user: %w", err)
	}
	if err := s.deps.EnqueueFunc(ctx, tx, userID, version+1); err != nil {
		return fmt.Errorf("enqueue user: %w", err)
	}
	return nil
}

// forget takes the user out of the caches. What Redis does not take there ends by itself within minutes, and lets nobody
// do anything: every write and read of the user ends in Postgres.
func (s *Service) forget(ctx context.Context, userID uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CacheTimeout)
	defer cancel()
	err := errors.Join(s.deps.ForgetFunc(ctx, userID), s.deps.Modes.Forget(ctx, userID), s.deps.ForgetPendingFunc(ctx, userID))
	if err != nil {
		s.deps.Log.WarnContext(ctx, "a deleted user is still cached", "user_id", userID, "err", err)
	}
}
