package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// DeleteMarksTx deletes what the scan for due users knows of a user, in a transaction that holds the user's ingest lock alone,
// so that no more comes. The scan holds no lock of the user's: marks that it merges while a statement waits for them leave
// one that only a later statement sees. So it goes on until one sees none; each finds fewer than the one before.
func DeleteMarksTx(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID) error {
	for {
		found, err := dbsqlc.New().ScanDeleteMarks(ctx, db, userID)
		if err != nil {
			return fmt.Errorf("delete marks: %w", err)
		}
		if !found {
			return nil
		}
	}
}
