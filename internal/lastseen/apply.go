package lastseen

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/writebehind"
)

// usersPerStatement bounds one statement.
const usersPerStatement = 1000

// Kind is the buffer of touches.
func Kind() writebehind.Kind { return writebehind.Kind{Name: Name, Apply: apply} }

// apply writes a batch of touches, in the order of users. A field that is no touch is passed over: nothing may hold the
// others up for ever.
func apply(ctx context.Context, tx pgx.Tx, entries map[string]string) (int64, error) {
	var ids []uuid.UUID
	var at []int64
	for _, field := range slices.Sorted(maps.Keys(entries)) {
		id, errID := uuid.Parse(field)
		ms, errMs := strconv.ParseInt(entries[field], 10, 64)
		if errID == nil && errMs == nil {
			ids, at = append(ids, id), append(at, ms)
		}
	}
	var total int64
	for len(ids) > 0 {
		n := min(usersPerStatement, len(ids))
		rows, err := dbsqlc.New().SeenApply(ctx, tx, ids[:n], at[:n])
		if err != nil {
			return 0, fmt.Errorf("write when users were seen: %w", err)
		}
		total += rows
		ids, at = ids[n:], at[n:]
	}
	return total, nil
}

// ChangeModeTx forgets when a user was seen who goes off, and keeps it again for one who comes back. It runs in the
// transaction that changes the mode.
func ChangeModeTx(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, off bool) error {
	change := dbsqlc.New().SeenResume
	if off {
		change = dbsqlc.New().SeenForget
	}
	if err := change(ctx, db, userID); err != nil {
		return fmt.Errorf("change what is kept of a user's visits: %w", err)
	}
	return nil
}
