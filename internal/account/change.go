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
	Handle *string
	Mode   *activity.Mode
	Zone   *string
	Mail   MailChange
}

func (c Change) validate() error {
	if c.Handle != nil {
		if err := ValidateHandle(*c.Handle); err != nil {
			return err
		}
	}
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

// Change changes what is given, in one transaction: all of it or nothing. Mode and zone are changed as ChangeMode and
// ChangeZone do, with the same errors; for a handle it can also fail with ErrHandleTaken or ErrHandleChanges, and for mail that
// is wanted without an address with an *InvalidError. Boards show a new handle when it returns, or, if they do not answer, soon.
func (s *Service) Change(ctx context.Context, userID uuid.UUID, c Change) error {
	if err := c.validate(); err != nil {
		return err
	}
	if c == (Change{}) {
		return nil
	}
	var done modeChange
	err := s.withWriter(ctx, userID, func(ctx context.Context, tx pgx.Tx) (err error) {
		done, err = s.changeTx(ctx, tx, userID, c)
		return err
	})
	if err != nil {
		return fmt.Errorf("change user: %w", err)
	}
	if c.Mode != nil {
		return s.spread(ctx, userID, done)
	}
	if c.Handle != nil {
		_ = s.publish(ctx, userID) // it is logged there
	}
	return nil
}

// changeTx changes what is given, in a transaction that holds the writer lock.
func (s *Service) changeTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, c Change) (done modeChange, err error) {
	if c.Mode != nil {
		if err := s.lockIngestTx(ctx, tx, userID); err != nil {
			return done, err
		}
	}
	// The mode last: its entry goes into the cache at the last version that the transaction gives the user.
	if c.Handle != nil {
		if err := s.changeHandleTx(ctx, tx, userID, *c.Handle); err != nil {
			return done, err
		}
	}
	if c.Zone != nil {
		if err := s.changeZoneTx(ctx, tx, userID, *c.Zone); err != nil {
			return done, err
		}
	}
	if err := s.changeMailTx(ctx, tx, userID, c.Mail); err != nil {
		return done, err
	}
	if c.Mode != nil {
		return s.changeModeTx(ctx, tx, userID, *c.Mode)
	}
	return done, nil
}
