package engagement

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ExportTx tells all that this package keeps of a user: what the user gave and wrote, and what the user's sessions got.
func ExportTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
	return export.Rows(ctx, tx, userID, emit,
		export.Table{Name: "kudos", SQL: dbsqlc.ExportKudosGiven},
		export.Table{Name: "kudos", SQL: dbsqlc.ExportKudosReceived},
		export.Table{Name: "comments", SQL: dbsqlc.ExportCommentsWritten},
		export.Table{Name: "comments", SQL: dbsqlc.ExportCommentsReceived},
		export.Table{Name: "counter_deltas", SQL: dbsqlc.ExportCounterDeltas},
	)
}
