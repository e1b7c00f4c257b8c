package account

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
)

// Change is what is to become of a user; nil stays as it is.
type Change struct {
	Mode *activity.Mode
	Zone *string
}

// Change changes mode and zone in one transaction: both or neither. Each is changed as ChangeMode and ChangeZone do, with
// the same errors.
func (s *Service) Change(ctx context.Context, userID uuid.UUID, c Change) error {
	switch {
	case c.Mode == nil && c.Zone == nil:
		return nil
	case c.Zone == nil:
		return s.ChangeMode(ctx, userID, *c.Mode)
	case c.Mode == nil:
		return s.ChangeZone(ctx, userID, *c.Zone)
	}
	if err := ValidateZone(*c.Zone); err != nil {
		return err
	}
	if err := validateMode(*c.Mode); err != nil {
		return err
	}
	var done modeChange
	err := s.withWriter(ctx, userID, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.lockIngestTx(ctx, tx, userID); err != nil {
			return err
		}
		// The zone first: the mode's entry goes into the cache at the last version that the transaction gives the user.
		if err := s.changeZoneTx(ctx, tx, userID, *c.Zone); err != nil {
			return err
		}
		var err error
		done, err = s.changeModeTx(ctx, tx, userID, *c.Mode)
		return err
	})
	if err != nil {
		return fmt.Errorf("change mode and zone: %w", err)
	}
	return s.spread(ctx, userID, done)
}
