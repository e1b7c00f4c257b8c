package groups

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ExportTx tells all that this package keeps of a user: the groups that the user owns, is in or is invited to.
func ExportTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
	return export.Rows(ctx, tx, userID, emit,
		export.Table{Name: "groups", SQL: dbsqlc.ExportGroups},
		export.Table{Name: "group_members", SQL: dbsqlc.ExportGroupMembers},
		export.Table{Name: "group_invitations", SQL: dbsqlc.ExportGroupInvitations},
	)
}
