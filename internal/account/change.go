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
	Mail MailChange
}

func (c Change) validate() error {
	if c.Mode != nil {
		if err := validateMode(*c.Mode); err != nil {
			return err
		}
	}
	if c.Zone != nil {
		if err := ValidateZone(*c.Zone); err != nil {
			return err
		}
	}
	return c.Mail.validate()
}

// Change changes all that is given in one transaction, or nothing. Mode and zone are changed as ChangeMode and ChangeZone
// do, with the same errors; mail with an *InvalidError where it is wanted and there is no address.
func (s *Service) Change(ctx context.Context, userID uuid.UUID, c Change) error {
	if c == (Change{}) {
		return nil
	}
	if err := c.validate(); err != nil {
		return err
	}
	var done modeChange
	err := s.withWriter(ctx, userID, func(ctx context.Context, tx pgx.Tx) error {
		if c.Mode != nil {
			if err := s.lockIngestTx(ctx, tx, userID); err != nil {
				return err
			}
		}
		if c.Zone != nil {
			// The zone first: the mode's entry goes into the cache at the last version that the transaction gives the user.
			if err := s.changeZoneTx(ctx, tx, userID, *c.Zone); err != nil {
				return err
			}
		}
		if err := s.changeMailTx(ctx, tx, userID, c.Mail); err != nil {
			return err
		}
		if c.Mode == nil {
			return nil
		}
		var err error
		done, err = s.changeModeTx(ctx, tx, userID, *c.Mode)
		return err
	})
	if err != nil {
		return fmt.Errorf("change user: %w", err)
	}
	if c.Mode == nil {
		return nil
	}
	return s.spread(ctx, userID, done)
}
