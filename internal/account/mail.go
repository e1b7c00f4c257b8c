package account

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// MailChange is what is to become of where and whether a user gets mail.
type MailChange struct {
	SetEmail bool   // Email counts
	Email    string // "" takes the address away, and with it the choice
	Recap    *bool  // whether the user wants the week's recap by mail; nil stays as it is
}

func (c MailChange) validate() error {
	if !c.SetEmail || c.Email == "" {
		return nil
	}
	return ValidateEmail(c.Email)
}

// The longest address and local part that mail servers have to take (RFC 5321, 4.5.3.1, as corrected), in bytes.
const (
	maxEmail     = 254
	maxEmailUser = 64
)

// emailForm is an address as people have them: a dot-atom in ASCII and the name of a host. Quoted local parts, comments,
// address literals and what needs SMTPUTF8 are not taken: too many servers do not.
var emailForm = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*" +
	`@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// ValidateEmail says whether mail could be sent to an address; whether it arrives is another question. The error is an
// *InvalidError, which does not repeat the address.
func ValidateEmail(s string) error {
	user, _, _ := strings.Cut(s, "@")
	if len(s) > maxEmail || len(user) > maxEmailUser || !emailForm.MatchString(s) {
		return &InvalidError{Field: "email", Message: "must be an e-mail address, such as ada@example.org"}
	}
	return nil
}

// needsEmail is the constraint that mail without an address breaks.
const needsEmail = "users_recap_mail"

func (s *Service) changeMailTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, c MailChange) error {
	if c == (MailChange{}) {
		return nil
	}
	row := dbsqlc.UserUpdateMailParams{ID: userID, SetEmail: c.SetEmail, SetChoice: c.Recap != nil}
	if c.Email != "" {
		row.Email = &c.Email
	}
	if c.Recap != nil {
		row.Choice = *c.Recap
	}
	n, err := dbsqlc.New().UserUpdateMail(ctx, tx, row)
	var broken *pgconn.PgError
	switch {
	case errors.As(err, &broken) && broken.ConstraintName == needsEmail:
		return &InvalidError{Field: "recap_mail", Message: "needs an e-mail address"}
	case err != nil:
		return fmt.Errorf("update mail: %w", err)
	case n == 0:
		return ErrUnknownUser
	}
	return nil
}
