package account

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// NewUser is a user to be created.
type NewUser struct {
	Handle    string        // 1 to 39 letters, digits and hyphens
	Zone      string        // a time zone as ValidateZone has it, in force for all time before the first change; "" is UTC
	Mode      activity.Mode // "" is full
	AvatarURL string        // "" is none
	Email     string        // as ValidateEmail has it; "" is none
}

// Created is a user that was created. Token is shown here and nowhere else: only its hash is stored.
type Created struct {
	ID     uuid.UUID
	Handle string
	Token  string
}

// Create creates a user. It fails with an *InvalidError or ErrHandleTaken.
func (s *Service) Create(ctx context.Context, u NewUser) (Created, error) {
	return Create(ctx, s.deps.DB, u)
}

// Create is Service.Create for who has no more than a database.
func Create(ctx context.Context, db store.Beginner, u NewUser) (Created, error) {
	u = u.withDefaults()
	if err := u.validate(); err != nil {
		return Created{}, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return Created{}, fmt.Errorf("make user id: %w", err)
	}
	token := admission.NewToken(id)
	hash := admission.HashToken(token)
	row := dbsqlc.UserInsertParams{ID: id, Handle: u.Handle, TokenHash: hash[:], Privacy: u.Mode, Zone: u.Zone}
	if u.AvatarURL != "" {
		row.AvatarUrl = &u.AvatarURL
	}
	if u.Email != "" {
		row.Email = &u.Email
	}
	err = store.WithTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		err := dbsqlc.New().UserInsert(ctx, tx, row)
		if store.IsUniqueViolation(err) {
			return ErrHandleTaken
		}
		if err != nil {
			return fmt.Errorf("insert user: %w", err)
		}
		return claimHandleTx(ctx, tx, id, u.Handle)
	})
	if err != nil {
		return Created{}, err
	}
	return Created{ID: id, Handle: u.Handle, Token: token}, nil
}

func (u NewUser) withDefaults() NewUser {
	if u.Zone == "" {
		u.Zone = "UTC"
	}
	if u.Mode == "" {
		u.Mode = activity.ModeFull
	}
	return u
}

func (u NewUser) validate() error {
	if err := ValidateHandle(u.Handle); err != nil {
		return err
	}
	if err := validateMode(u.Mode); err != nil {
		return err
	}
	if u.Email != "" {
		if err := ValidateEmail(u.Email); err != nil {
			return err
		}
	}
	return ValidateZone(u.Zone)
}

func validateMode(m activity.Mode) error {
	if _, err := activity.ParseMode(string(m)); err != nil {
		return &InvalidError{Field: "privacy", Message: "must be full, summary or off"}
	}
	return nil
}
