package recapmail

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ExportTx tells all that this package keeps of a user: the mails of past weeks, and what became of them.
func ExportTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
	return export.Rows(ctx, tx, userID, emit, export.Table{Name: "recap_mails", SQL: dbsqlc.ExportRecapMails})
}
