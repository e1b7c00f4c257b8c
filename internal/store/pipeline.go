package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pipeline collects statements and sends them in one round trip. It stands in for the database handle of generated
// :exec queries, so that typed calls can be pipelined; their results are not known before Send. Sent with
// SendTx, the whole pipeline is one transaction.
type Pipeline struct {
	batch pgx.Batch
}

// errPipelineReads is what a query that wants rows gets: its caller must use the transaction instead.
var errPipelineReads = errors.New("pipeline: only statements without a result can be queued")

// Exec queues a statement. The command tag is empty.
func (p *Pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// QueueRow queues a statement whose single row scan reads when the pipeline is sent.
func (p *Pipeline) QueueRow(sql string, scan func(pgx.Row) error, args ...any) {
	p.batch.Queue(sql, args...).QueryRow(scan)
}

// QueueRows queues a statement whose rows scan reads when the pipeline is sent.
func (p *Pipeline) QueueRows(sql string, scan func(pgx.Rows) error, args ...any) {
	p.batch.Queue(sql, args...).Query(scan)
}

// Query always fails.
func (p *Pipeline) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errPipelineReads
}

// QueryRow always fails.
func (p *Pipeline) QueryRow(context.Context, string, ...any) pgx.Row { return errRow{} }

type errRow struct{}

func (errRow) Scan(...any) error { return errPipelineReads }

// Sender sends batches: a transaction, a connection or a pool.
type Sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// SendTx runs the queued statements, in order, as one READ COMMITTED transaction and in one round trip, and empties the
// pipeline. It returns the first error. After an error of Postgres nothing was done; a scan function of QueueRow or
// QueueRows runs when all was sent, so after an error of its own everything may be.
func (p *Pipeline) SendTx(ctx context.Context, pool *pgxpool.Pool) error {
	if p.batch.Len() == 0 {
		return nil
	}
	var tx pgx.Batch
	tx.Queue(beginReadCommitted)
	tx.QueuedQueries = append(tx.QueuedQueries, p.batch.QueuedQueries...)
	tx.Queue("COMMIT")
	p.batch = tx
	conn, err := pool.Acquire(ctx)
	if err != nil {
		p.batch = pgx.Batch{}
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	if err := p.Send(ctx, conn); err != nil {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, _ = conn.Exec(rctx, "ROLLBACK") // the pool closes a connection that is left in a transaction
		return err
	}
	return nil
}

// Send runs the queued statements in order and empties the pipeline. It returns the first error.
func (p *Pipeline) Send(ctx context.Context, s Sender) error {
	if p.batch.Len() == 0 {
		return nil
	}
	batch := p.batch
	p.batch = pgx.Batch{}
	if err := s.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("send pipeline: %w", err)
	}
	return nil
}
