package views

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ExportTx tells all that is counted of a user's pages, and when the user was last seen.
func ExportTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
	return export.Rows(ctx, tx, userID, emit,
		export.Table{Name: "session_counters", SQL: dbsqlc.ExportSessionCounters},
		export.Table{Name: "user_counters", SQL: dbsqlc.ExportUserCounters},
		export.Table{Name: "view_days", SQL: dbsqlc.ExportViewDays},
	)
}
