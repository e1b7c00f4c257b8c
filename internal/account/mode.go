package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ChangeMode changes a user's privacy mode. When it returns nil, nothing that is stored holds what the mode does not
// keep, whatever was in flight. It fails with an *InvalidError, ErrUnknownUser, or ErrBusy, having changed nothing.
func (s *Service) ChangeMode(ctx context.Context, userID uuid.UUID, mode activity.Mode) error {
	if err := validateMode(mode); err != nil {
		return err
	}
	var committed privacy.Entry
	err := s.withWriter(ctx, userID, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.lockIngestTx(ctx, tx, userID); err != nil {
			return err
		}
		var err error
		committed, err = s.changeModeTx(ctx, tx, userID, mode)
		return err
	})
	if err != nil {
		return fmt.Errorf("change mode: %w", err)
	}
	s.spread(ctx, userID, committed)
	return nil
}

// changeModeTx is the change itself, in a transaction that holds both locks. It returns what is true once it commits.
func (s *Service) changeModeTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, mode activity.Mode) (privacy.Entry, error) {
	q := dbsqlc.New()
	user, err := q.UserGetMode(ctx, tx, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return privacy.Entry{}, ErrUnknownUser
	}
	if err != nil {
		return privacy.Entry{}, fmt.Errorf("read mode: %w", err)
	}
	if user.Privacy == mode {
		return privacy.Entry{Version: user.Version, Mode: mode}, nil
	}
	if mode == activity.ModeOff {
		if err := s.closeHotTx(ctx, tx, userID); err != nil {
			return privacy.Entry{}, err
		}
	}
	version, err := q.UserUpdateMode(ctx, tx, mode, userID)
	if err != nil {
		return privacy.Entry{}, fmt.Errorf("update mode: %w", err)
	}
	if user.Privacy == activity.ModeFull {
		if err := privacy.EraseTx(ctx, tx, userID); err != nil {
			return privacy.Entry{}, err
		}
	}
	if err := s.deps.EnqueueFunc(ctx, tx, userID, version); err != nil {
		return privacy.Entry{}, fmt.Errorf("enqueue user: %w", err)
	}
	next := privacy.Entry{Version: version, Mode: mode}
	if stricter(mode, user.Privacy) {
		s.cache(ctx, userID, next)
	}
	return next, nil
}

// closeHotTx empties the hot table of a user who switches to off: what has ended becomes sessions, the rest is dropped.
//
// A user whose data cannot be finalized must still be able to leave. Then the events stay, for the aggregator to try
// again: dropping them would lose time that was acknowledged. They are erased like all others.
func (s *Service) closeHotTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	nested, err := tx.Begin(ctx) // a savepoint
	if err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	if err := s.deps.FinalizeFunc(ctx, nested, userID); err != nil {
		if rollbackErr := nested.Rollback(ctx); rollbackErr != nil || ctx.Err() != nil || busy(err) {
			return fmt.Errorf("finalize what has ended: %w", err)
		}
		s.deps.Log.ErrorContext(ctx, "user left without being finalized", "user", userID, "sqlstate", store.SQLState(err))
		return nil
	}
	if err := nested.Commit(ctx); err != nil {
		return fmt.Errorf("release savepoint: %w", err)
	}
	return privacy.DropHotTx(ctx, tx, userID)
}

// spread tells the cache and the boards of a committed change, before the request is answered, also when its client has
// gone. Nothing here can undo or fail the change.
func (s *Service) spread(ctx context.Context, userID uuid.UUID, committed privacy.Entry) {
	s.cache(context.WithoutCancel(ctx), userID, committed)
	s.publish(ctx, userID)
}

// publish brings a changed user to the boards. The outbox does it later if it does not go now.
func (s *Service) publish(ctx context.Context, userID uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.PublishTimeout)
	defer cancel()
	if err := s.deps.PublishFunc(ctx, userID); err != nil {
		s.deps.Log.WarnContext(ctx, "boards do not show a changed user yet", "user", userID, "err", err)
	}
}

// cache puts the mode. When Redis does not take it, the entry that is there, if any, is stale for at most its time to
// live: it may cost detail, and it decides nothing.
func (s *Service) cache(ctx context.Context, userID uuid.UUID, e privacy.Entry) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CacheTimeout)
	defer cancel()
	if _, err := s.deps.Modes.Put(ctx, userID, e); err != nil {
		s.deps.Log.WarnContext(ctx, "mode is not cached", "user", userID, "err", err)
	}
}

// stricter says whether a keeps less than b.
func stricter(a, b activity.Mode) bool { return strictness[a] > strictness[b] }

var strictness = map[activity.Mode]int{activity.ModeFull: 0, activity.ModeSummary: 1, activity.ModeOff: 2}
