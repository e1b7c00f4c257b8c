package privacy

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// EraseTx erases the paths, projects and key counts of a user who leaves full from everything that is stored: hot
// events, session details, archive details. The transaction must hold the user's writer lock and ingest lock, taken by
// earlier statements, so that nothing is written meanwhile that this would miss.
//
// Languages stay as they are: the key is resolved when an event is accepted.
func EraseTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	q := dbsqlc.New()
	if err := q.PrivacyEraseEvents(ctx, tx, userID); err != nil {
		return fmt.Errorf("erase hot events' details: %w", err)
	}
	if err := q.PrivacyDeleteSessionDetails(ctx, tx, userID); err != nil {
		return fmt.Errorf("delete session details: %w", err)
	}
	if err := q.PrivacyDeleteArchiveDetails(ctx, tx, userID); err != nil {
		return fmt.Errorf("delete archive details: %w", err)
	}
	return nil
}

// DropHotTx deletes a user's hot events and what the scanner knows of them. The transaction must hold both locks, as
// for EraseTx, and have finalized what has ended: what is left then is the run that is still open.
func DropHotTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	q := dbsqlc.New()
	if err := q.PrivacyDeleteEvents(ctx, tx, userID); err != nil {
		return fmt.Errorf("delete hot events: %w", err)
	}
	return store.DeleteMarksTx(ctx, tx, userID)
}
