package engagement

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// What follows runs in transactions of others: whoever makes, merges and deletes sessions, and deletes users, holding the
// user's writer lock. The statements without a result may be queued.

// SessionsMade makes the counters of sessions that were just made. Those of sessions that have some stay.
func SessionsMade(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, ids []uuid.UUID) error {
	return dbsqlc.New().EngagementInsertCounters(ctx, db, userID, ids)
}

// SessionsAbsorbed moves everything that hangs on absorbed sessions to their heir. It comes after the rows of the absorbed
// ones were deleted: from then on nobody adds to them.
func SessionsAbsorbed(ctx context.Context, db dbsqlc.DBTX, userID, heir uuid.UUID, absorbed []uuid.UUID) error {
	q := dbsqlc.New()
	// A heir from before there were counters has none, and would leave those of the absorbed nowhere to go.
	if err := q.EngagementInsertCounters(ctx, db, userID, []uuid.UUID{heir}); err != nil {
		return err
	}
	all := append([]uuid.UUID{heir}, absorbed...)
	if err := q.EngagementLockCounters(ctx, db, userID, all); err != nil {
		return err
	}
	return q.EngagementMove(ctx, db, dbsqlc.EngagementMoveParams{UserID: userID, Heir: heir, Absorbed: absorbed})
}

// SessionsDeleted deletes everything that hangs on sessions. It comes after their rows were deleted.
func SessionsDeleted(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, ids []uuid.UUID) error {
	q := dbsqlc.New()
	if err := q.EngagementLockCounters(ctx, db, userID, ids); err != nil {
		return err
	}
	return q.EngagementDeleteSessions(ctx, db, userID, ids)
}

// errMoving means that sessions were merged time and again while a user's kudos and comments were being deleted.
var errMoving = errors.New("sessions are being merged")

// EraseUserTx deletes everything that hangs on a user's sessions, and takes the user's kudos and comments off the sessions of
// others; it returns those, for their counts to follow. It comes after the user's sessions were deleted, and in a transaction
// that holds the user's ingest lock, so that nothing is being added in the user's name.
func EraseUserTx(ctx context.Context, tx dbsqlc.DBTX, userID uuid.UUID) ([]uuid.UUID, error) {
	q := dbsqlc.New()
	if err := q.EngagementLockUserCounters(ctx, tx, userID); err != nil {
		return nil, fmt.Errorf("lock counters: %w", err)
	}
	if err := q.EngagementDeleteUserOwn(ctx, tx, userID); err != nil {
		return nil, fmt.Errorf("erase what hangs on sessions: %w", err)
	}
	var changed []uuid.UUID
	for range maxLooks {
		rows, err := q.EngagementDeleteUserGiven(ctx, tx, userID)
		if err != nil {
			return nil, fmt.Errorf("erase kudos and comments: %w", err)
		}
		complete := true
		for _, r := range rows {
			complete = complete && r.Complete
			if r.SessionID.Valid {
				changed = append(changed, r.SessionID.UUID)
			}
		}
		if complete {
			return changed, nil
		}
	}
	return nil, fmt.Errorf("erase kudos and comments: %w", errMoving)
}
