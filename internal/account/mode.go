package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ChangeMode changes a user's privacy mode. When it returns nil, nothing that is stored holds what the mode does not
// keep, whatever was in flight, and who is on off is on no board. It fails with an *InvalidError, ErrUnknownUser, or ErrBusy,
// having changed nothing; and with ErrNotShown, having changed the mode, when it came from or went to off.
func (s *Service) ChangeMode(ctx context.Context, userID uuid.UUID, mode activity.Mode) error {
	return s.Change(ctx, userID, Change{Mode: &mode})
}

// modeChange is a change of mode that is to be committed, or the finding that there is none to make.
type modeChange struct {
	from activity.Mode
	next privacy.Entry // what is true once it commits
}

// moves says whether boards list the user otherwise than before. To stay off counts as well: an earlier request may have
// failed to get the user off the boards.
func (c modeChange) moves() bool {
	return c.next.Mode == activity.ModeOff || c.from == activity.ModeOff
}

// changeModeTx is the change itself, in a transaction that holds both locks.
func (s *Service) changeModeTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, mode activity.Mode) (modeChange, error) {
	q := dbsqlc.New()
	user, err := q.UserGetMode(ctx, tx, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return modeChange{}, ErrUnknownUser
	}
	if err != nil {
		return modeChange{}, fmt.Errorf("read mode: %w", err)
	}
	if user.Privacy == mode {
		return modeChange{from: mode, next: privacy.Entry{Version: user.Version, Mode: mode}}, nil
	}
	if user.Privacy == activity.ModeFull {
		// Before anything else reads them: how long paths are, and how many, then matters to nothing that follows.
		if err := privacy.EraseTx(ctx, tx, userID); err != nil {
			return modeChange{}, err
		}
	}
	if mode == activity.ModeOff {
		if err := s.closeHotTx(ctx, tx, userID); err != nil {
			return modeChange{}, err
		}
	}
	version, err := q.UserUpdateMode(ctx, tx, mode, userID)
	if err != nil {
		return modeChange{}, fmt.Errorf("update mode: %w", err)
	}
	if mode == activity.ModeOff || user.Privacy == activity.ModeOff {
		if err := lastseen.ChangeModeTx(ctx, tx, userID, mode == activity.ModeOff); err != nil {
			return modeChange{}, err
		}
	}
	if err := s.deps.EnqueueFunc(ctx, tx, userID, version); err != nil {
		return modeChange{}, fmt.Errorf("enqueue user: %w", err)
	}
	next := privacy.Entry{Version: version, Mode: mode}
	if stricter(mode, user.Privacy) {
		s.cache(ctx, userID, next)
	}
	return modeChange{from: user.Privacy, next: next}, nil
}

// spread tells the cache and the boards of a committed change, before the request is answered, also when its client has
// gone. Nothing here can undo the change. Only who asked to be seen, or not to be, has to hear of boards that are behind.
func (s *Service) spread(ctx context.Context, userID uuid.UUID, done modeChange) error {
	s.cache(context.WithoutCancel(ctx), userID, done.next)
	if done.next.Mode == activity.ModeOff {
		s.forgetPending(ctx, userID)
	}
	if err := s.publish(ctx, userID); err != nil && done.moves() {
		return ErrNotShown
	}
	return nil
}

// forgetPending takes out of Redis what has gathered of a user who went off. The next flush would drop it.
func (s *Service) forgetPending(ctx context.Context, userID uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CacheTimeout)
	defer cancel()
	if err := s.deps.ForgetPendingFunc(ctx, userID); err != nil {
		s.deps.Log.WarnContext(ctx, "what has gathered of a user on off is dropped by the next flush", "user_id", userID, "err", err)
	}
}

// publish brings a changed user to the boards. The outbox does it later if it does not go now: what kept it is logged, and
// returned for those to whom it matters.
func (s *Service) publish(ctx context.Context, userID uuid.UUID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.PublishTimeout)
	defer cancel()
	err := s.deps.PublishFunc(ctx, userID)
	if err != nil {
		s.deps.Log.WarnContext(ctx, "boards do not show a changed user yet", "user_id", userID, "err", err)
	}
	return err
}

// cache puts the mode. When Redis does not take it, the entry that is there, if any, is stale for at most its time to
// live: it may cost detail, and it decides nothing.
func (s *Service) cache(ctx context.Context, userID uuid.UUID, e privacy.Entry) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CacheTimeout)
	defer cancel()
	if _, err := s.deps.Modes.Put(ctx, userID, e); err != nil {
		s.deps.Log.WarnContext(ctx, "mode is not cached", "user_id", userID, "err", err)
	}
}

// stricter says whether a keeps less than b.
func stricter(a, b activity.Mode) bool { return strictness[a] > strictness[b] }

var strictness = map[activity.Mode]int{activity.ModeFull: 0, activity.ModeSummary: 1, activity.ModeOff: 2}
