package outbox

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// Enqueue makes the user pending at version. It must run in the transaction that raised the user's version to it: what
// is not committed together can be lost. db is that transaction, or a pipeline that will be sent in it.
func Enqueue(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, version int64) error {
	err := dbsqlc.New().OutboxUpsert(ctx, db, userID, version)
	if err != nil {
		return fmt.Errorf("enqueue user: %w", err)
	}
	return nil
}
