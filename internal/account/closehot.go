package account

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// closeHotTx empties the hot table of a user who switches to off: what has ended becomes sessions, the rest is dropped.
//
// A user whose data cannot be finalized on the spot, or not in time, must still be able to leave. Then only what has not
// ended is dropped, as it would have been, and the rest stays for the aggregator, erased like everything else: dropping
// that too would lose time that was acknowledged.
func (s *Service) closeHotTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	nested, err := tx.Begin(ctx) // a savepoint
	if err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	if err := s.finalizeInTime(ctx, nested, userID); err != nil {
		if rollbackErr := nested.Rollback(ctx); rollbackErr != nil || ctx.Err() != nil || busy(err) {
			return fmt.Errorf("finalize what has ended: %w", err)
		}
		s.deps.Log.WarnContext(ctx, "user left, the aggregator will finalize what has ended",
			"user_id", userID, "reason", aggregate.FailureReason(err))
		return aggregate.DropOpenTx(ctx, tx, userID)
	}
	if err := nested.Commit(ctx); err != nil {
		return fmt.Errorf("release savepoint: %w", err)
	}
	return privacy.DropHotTx(ctx, tx, userID)
}

// finalizeInTime finalizes within FinalizeTimeout: Postgres gives up a statement that takes longer, and none is begun when
// it is over. It is not a deadline of the context, because pgx closes the connection of a context that ends, and the
// locks and the erasure would be gone with it.
func (s *Service) finalizeInTime(ctx context.Context, nested pgx.Tx, userID uuid.UUID) error {
	q := dbsqlc.New()
	budget := clock.Left(ctx, 2*s.cfg.FinalizeTimeout) / 2
	ms := max(budget.Milliseconds(), 1) // 0 would be no bound
	was, err := q.AccountSetStatementTimeout(ctx, nested, strconv.FormatInt(ms, 10))
	if err != nil {
		return fmt.Errorf("set statement timeout: %w", err)
	}
	if err := s.finalizeWithin(ctx, nested, userID, budget); err != nil {
		return err
	}
	// What follows has the time that it had before. A rollback to the savepoint does the same.
	if _, err := q.AccountSetStatementTimeout(ctx, nested, was.Before); err != nil {
		return fmt.Errorf("reset statement timeout: %w", err)
	}
	return nil
}

func (s *Service) finalizeWithin(ctx context.Context, nested pgx.Tx, userID uuid.UUID, budget time.Duration) error {
	running, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	return s.deps.FinalizeFunc(ctx, budgetTx{Tx: nested, err: running.Err}, userID)
}

// budgetTx is a transaction in which nothing is sent any more once err says that its time is over.
type budgetTx struct {
	pgx.Tx
	err func() error
}

// Exec implements pgx.Tx.
func (b budgetTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := b.err(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return b.Tx.Exec(ctx, sql, args...)
}

// Query implements pgx.Tx.
func (b budgetTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := b.err(); err != nil {
		return nil, err
	}
	return b.Tx.Query(ctx, sql, args...)
}

// QueryRow implements pgx.Tx.
func (b budgetTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := b.err(); err != nil {
		return failed{err}
	}
	return b.Tx.QueryRow(ctx, sql, args...)
}

// SendBatch implements pgx.Tx.
func (b budgetTx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	if err := b.err(); err != nil {
		return failed{err}
	}
	return b.Tx.SendBatch(ctx, batch)
}

// failed is the row, and the results, of what was not sent.
type failed struct{ err error }

// Scan implements pgx.Row.
func (f failed) Scan(...any) error { return f.err }

// Exec implements pgx.BatchResults.
func (f failed) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }

// Query implements pgx.BatchResults.
func (f failed) Query() (pgx.Rows, error) { return nil, f.err }

// QueryRow implements pgx.BatchResults.
func (f failed) QueryRow() pgx.Row { return f }

// Close implements pgx.BatchResults.
func (f failed) Close() error { return f.err }

// Tx implements pgx.BatchResults.
func (f failed) Tx() pgx.Tx { return nil }
