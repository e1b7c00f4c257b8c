package groups

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// act runs one change in a user's name, in a transaction of its own, after the user's lock: modes do not change and nobody is
// deleted under it.
func (s *Service) act(ctx context.Context, userID uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return store.WithTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.q.GroupLockActor(ctx, tx, store.IngestLock(userID)); err != nil {
			return fmt.Errorf("lock user: %w", err)
		}
		return fn(ctx, tx)
	})
}

// standing is what the actor is to a group.
type standing struct {
	dbsqlc.GroupGetStandingRow
}

// off says whether nothing new is kept of the actor.
func (s standing) off() bool { return activity.Mode(s.Privacy) == activity.ModeOff }

// owns fails unless the actor may change the group as its owner.
func (s standing) owns() error {
	switch {
	case !s.Member:
		return ErrNotFound
	case !s.Owner:
		return ErrNotOwner
	case s.off():
		return ErrOff
	}
	return nil
}

// lock takes the row of a group and then, by a later statement, finds out what the actor is to it. It fails with ErrNotFound.
func (s *Service) lock(ctx context.Context, tx pgx.Tx, userID, groupID uuid.UUID) (standing, error) {
	if _, err := s.q.GroupLock(ctx, tx, groupID); err != nil {
		return standing{}, absent("lock group", err)
	}
	return s.standing(ctx, tx, userID, groupID)
}

func (s *Service) standing(ctx context.Context, db dbsqlc.DBTX, userID, groupID uuid.UUID) (standing, error) {
	row, err := s.q.GroupGetStanding(ctx, db, userID, groupID)
	if err != nil {
		return standing{}, absent("read standing", err)
	}
	return standing{row}, nil
}

// absent is ErrNotFound for what is not there.
func absent(what string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	return fmt.Errorf("%s: %w", what, err)
}

// change runs one change of a group in a user's name.
func (s *Service) change(ctx context.Context, userID, groupID uuid.UUID, fn func(ctx context.Context, tx pgx.Tx, is standing) error) error {
	return s.act(ctx, userID, func(ctx context.Context, tx pgx.Tx) error {
		is, err := s.lock(ctx, tx, userID, groupID)
		if err != nil {
			return err
		}
		return fn(ctx, tx, is)
	})
}

// Rename gives a group of the user's another name. It fails with ErrBadName, ErrNotFound, ErrNotOwner or ErrOff.
func (s *Service) Rename(ctx context.Context, userID, id uuid.UUID, name string) error {
	name, err := cleanName(name)
	if err != nil {
		return err
	}
	err = s.change(ctx, userID, id, func(ctx context.Context, tx pgx.Tx, is standing) error {
		if err := is.owns(); err != nil {
			return err
		}
		return s.q.GroupUpdateName(ctx, tx, name, id)
	})
	if err != nil {
		return fmt.Errorf("rename group: %w", err)
	}
	return nil
}

// Delete deletes a group of the user's with its members and invitations. Who is on off may do that too. It fails with
// ErrNotFound or ErrNotOwner.
func (s *Service) Delete(ctx context.Context, userID, id uuid.UUID) error {
	err := s.change(ctx, userID, id, func(ctx context.Context, tx pgx.Tx, is standing) error {
		if err := is.owns(); err != nil && !errors.Is(err, ErrOff) {
			return err
		}
		return s.q.GroupDelete(ctx, tx, id)
	})
	if err != nil {
		return fmt.Errorf("delete group: %w", err)
	}
	return nil
}
