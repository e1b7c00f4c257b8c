package engagement

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// What follows runs in transactions of others: whoever makes, merges and deletes sessions, and deletes users, holding the
// user's writer lock. The statements without a result may be queued.

// Merge is sessions that became part of another one.
type Merge struct {
	Heir     uuid.UUID
	Absorbed []uuid.UUID
}

// SessionsChanged follows sessions that came and went: it makes the counters of new ones, moves everything that hangs on
// absorbed ones to their heirs, and deletes what hangs on deleted ones. It comes after the rows of those that went were
// deleted: from then on nobody adds to them. All counters are locked at once, in the order of their keys.
func SessionsChanged(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, made []uuid.UUID, merged []Merge, deleted []uuid.UUID) error {
	q := dbsqlc.New()
	locked := slices.Clone(deleted)
	for _, m := range merged {
		// A heir from before there were counters has none, and would leave those of the absorbed nowhere to go.
		made = append(slices.Clip(made), m.Heir)
		locked = append(append(locked, m.Heir), m.Absorbed...)
	}
	if len(made) > 0 {
		if err := q.EngagementInsertCounters(ctx, db, userID, made); err != nil {
			return err
		}
	}
	if len(locked) == 0 {
		return nil
	}
	if err := q.EngagementLockCounters(ctx, db, userID, locked); err != nil {
		return err
	}
	for _, m := range merged {
		args := dbsqlc.EngagementMoveParams{UserID: userID, Heir: m.Heir, Absorbed: m.Absorbed}
		if err := q.EngagementMove(ctx, db, args); err != nil {
			return err
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	if err := q.EngagementDeleteSessions(ctx, db, userID, deleted); err != nil {
		return err
	}
	return q.EngagementDeleteDeltas(ctx, db, userID, deleted)
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
	if err := q.EngagementDeleteDeltas(ctx, tx, userID, nil); err != nil {
		return nil, fmt.Errorf("erase what was not counted yet: %w", err)
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
