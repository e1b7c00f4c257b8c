package aggregate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ExportTx tells all that this package keeps of a user.
func ExportTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
	err := export.Rows(ctx, tx, userID, emit,
		export.Table{Name: "sessions", SQL: dbsqlc.ExportSessions},
		export.Table{Name: "session_seconds", SQL: dbsqlc.ExportSessionSeconds},
		export.Table{Name: "session_details", SQL: dbsqlc.ExportSessionDetails},
		export.Table{Name: "session_aliases", SQL: dbsqlc.ExportSessionAliases},
		export.Table{Name: "totals", SQL: dbsqlc.ExportTotals},
		export.Table{Name: "deleted_stretches", SQL: dbsqlc.ExportDeletedStretches},
		export.Table{Name: "finalize_failures", SQL: dbsqlc.ExportFinalizeFailures},
	)
	if err != nil {
		return err
	}
	return exportArchives(ctx, tx, userID, emit)
}

// archived is an event of the archive as it is told: readable, like those that are hot.
type archived struct {
	SessionID  uuid.UUID       `json:"session_id"`
	ID         uuid.UUID       `json:"id"`
	TS         int64           `json:"ts"`
	Lang       string          `json:"lang"`
	Keystrokes int32           `json:"keystrokes"`
	Lines      int32           `json:"lines"`
	Project    string          `json:"project,omitempty"`
	File       string          `json:"file,omitempty"`
	KeyFreq    json.RawMessage `json:"key_freq,omitempty"`
}

// exportArchives tells the events of archives and of the details beside them, chunk by chunk.
func exportArchives(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit export.EmitFunc) error {
	rows, err := tx.Query(ctx, dbsqlc.ExportArchives, userID)
	if err != nil {
		return fmt.Errorf("read archives: %w", err)
	}
	var session uuid.UUID
	var packed, details pgtype.DriverBytes
	var events []activity.Event
	_, err = pgx.ForEachRow(rows, []any{&session, &packed, &details}, func() (err error) {
		if events, err = decodeChunk(events[:0], chunk{packed, details}); err != nil {
			return err
		}
		return emitArchived(session, events, emit)
	})
	if err != nil {
		return fmt.Errorf("read archives: %w", err)
	}
	return nil
}

func emitArchived(session uuid.UUID, events []activity.Event, emit export.EmitFunc) error {
	for i := range events {
		e := &events[i]
		row, err := json.Marshal(archived{session, e.ID, e.TS, e.Lang, e.Keystrokes, e.Lines, e.Project, e.File, json.RawMessage(e.KeyFreq)})
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		if err := emit("archives", row); err != nil {
			return err
		}
	}
	return nil
}
