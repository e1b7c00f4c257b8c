package outbox

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ExportTx tells whether boards still have to follow a user.
func ExportTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
	return export.Rows(ctx, tx, userID, emit, export.Table{Name: "outbox", SQL: dbsqlc.ExportOutbox})
}
