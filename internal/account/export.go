package account

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ExportTx tells who a user is, but for the hash of the token. It fails with ErrUnknownUser.
func ExportTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
	known := false
	told := func(table string, row []byte) error {
		known = true
		return emit(table, row)
	}
	if err := export.Rows(ctx, tx, userID, told, export.Table{Name: "users", SQL: dbsqlc.ExportUsers}); err != nil {
		return err
	}
	if !known {
		return ErrUnknownUser
	}
	return export.Rows(ctx, tx, userID, emit,
		export.Table{Name: "user_zones", SQL: dbsqlc.ExportUserZones},
		export.Table{Name: "former_handles", SQL: dbsqlc.ExportFormerHandles},
	)
}
