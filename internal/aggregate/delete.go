package aggregate

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// ErrNoSession means that the user has no such session.
var ErrNoSession = errors.New("no such session")

// AbsorbedError means that a session was merged into another one, its heir, and does not exist under its own id.
type AbsorbedError struct{ Heir uuid.UUID }

// Error implements error.
func (e *AbsorbedError) Error() string { return "the session was merged into " + e.Heir.String() }

// DeleteSessionTx deletes a session of a user: its seconds leave the totals, and the user's events with a second from
// its first to its last one are dropped, those that are hot now and those that arrive later. It runs in a transaction of
// the caller, who holds the user's writer lock and took it by an earlier statement. It fails with ErrNoSession or an
// *AbsorbedError.
func (f *Finalizer) DeleteSessionTx(ctx context.Context, tx pgx.Tx, userID, sessionID uuid.UUID) error {
	user, err := f.queries.FinalizeGetUser(ctx, tx, nil, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNoSession
	}
	if err != nil {
		return fmt.Errorf("read user: %w", err)
	}
	at, err := f.findSession(ctx, tx, userID, sessionID)
	if err != nil {
		return err
	}
	args := dbsqlc.DeleteStretchParams{UserID: userID, FirstS: at.first, LastS: at.last}
	if err := f.queries.DeleteStretch(ctx, tx, args); err != nil {
		return fmt.Errorf("remember deleted stretch: %w", err)
	}
	ids := []uuid.UUID{sessionID}
	seconds, err := f.readSeconds(ctx, tx, userID, ids)
	if err != nil {
		return err
	}
	p := plan{changed: true, replaced: ids, gone: ids, deleted: ids, deltas: totalDeltas(difference(seconds, nil))}
	w := f.writer(tx, userID)
	return w.replace(ctx, user, &p)
}

func (f *Finalizer) findSession(ctx context.Context, tx pgx.Tx, userID, sessionID uuid.UUID) (stretch, error) {
	row, err := f.queries.DeleteGetSession(ctx, tx, userID, sessionID)
	if err == nil {
		return stretch{row.FirstS, row.LastS}, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return stretch{}, fmt.Errorf("find session: %w", err)
	}
	heir, err := f.queries.DeleteGetHeir(ctx, tx, userID, sessionID)
	switch {
	case err == nil:
		return stretch{}, &AbsorbedError{Heir: heir}
	case errors.Is(err, pgx.ErrNoRows):
		return stretch{}, ErrNoSession
	default:
		return stretch{}, fmt.Errorf("find heir: %w", err)
	}
}

// EraseUserTx deletes everything that this package keeps of a user, in a transaction that holds both of the user's locks.
// The outbox is the caller's to tell.
func EraseUserTx(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID) error {
	if err := dbsqlc.New().DeleteUserAggregates(ctx, db, userID); err != nil {
		return fmt.Errorf("erase sessions and totals: %w", err)
	}
	return nil
}
