package recap

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// EraseUserTx erases what is kept of a user's mails, in the transaction that deletes the user and holds the lock on the
// user's row. Nothing has to remain of them: mails are made for users that are there, address and choice are in the user's
// row, and whoever puts a mail into the queue holds that row shared.
func EraseUserTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	if err := dbsqlc.New().RecapMailEraseUser(ctx, tx, userID); err != nil {
		return fmt.Errorf("erase recap mails: %w", err)
	}
	return nil
}
