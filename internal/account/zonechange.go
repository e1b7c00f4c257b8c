package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// ChangeZone puts a user into another time zone from the present second on, by Postgres's clock; it is stored as given.
// The same zone again changes nothing; of two changes within one second the last wins. It fails with an *InvalidError,
// ErrUnknownUser, or ErrBusy, having changed nothing.
//
// It holds the writer lock: a finalize reads the zones once, and writes the version that it read.
func (s *Service) ChangeZone(ctx context.Context, userID uuid.UUID, zone string) error {
	return s.Change(ctx, userID, Change{Zone: &zone})
}

func (s *Service) changeZoneTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, zone string) error {
	q := dbsqlc.New()
	current, err := q.UserGetZone(ctx, tx, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrUnknownUser
	}
	if err != nil {
		return fmt.Errorf("read zone: %w", err)
	}
	if current == zone {
		return nil
	}
	if err := q.UserInsertZone(ctx, tx, userID, zone); err != nil {
		return fmt.Errorf("insert zone: %w", err)
	}
	version, err := q.UserUpdateVersion(ctx, tx, userID)
	if err != nil {
		return fmt.Errorf("raise version: %w", err)
	}
	if err := s.deps.EnqueueFunc(ctx, tx, userID, version); err != nil {
		return fmt.Errorf("enqueue user: %w", err)
	}
	return nil
}
