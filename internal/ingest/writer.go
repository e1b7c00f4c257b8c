package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

var (
	// ErrUnknownUser means that no such user exists.
	ErrUnknownUser = errors.New("unknown user")
	// ErrOverloaded means that too much is waiting to be stored. Nothing was stored; try again.
	ErrOverloaded = errors.New("too many events are waiting to be stored")
	// ErrUserBusy means that the user's mode is being changed or the user is being deleted, and that this took longer
	// than the request could wait. Nothing was stored; try again.
	ErrUserBusy = errors.New("the account is being changed")
	// ErrStopped means that the writer no longer runs. Nothing was stored; try again.
	ErrStopped = errors.New("the writer has stopped")
)

// WriterConfig bounds what a Writer does at once.
type WriterConfig struct {
	GroupUsers    int           // users in one commit group
	GroupEvents   int           // events in one commit group, and one more per request
	Flushers      int           // commit groups under way at once
	QueueEvents   int           // events that may wait
	QueuePerUser  int           // requests that may wait per user
	StoreTimeout  time.Duration // for one commit group
	LockedTimeout time.Duration // how long a locked user is tried again
	LockedPause   time.Duration // between two tries
}

// DefaultWriterConfig suits one process on one machine.
func DefaultWriterConfig() WriterConfig {
	return WriterConfig{
		GroupUsers:    256,
		GroupEvents:   8000,
		Flushers:      2,
		QueueEvents:   200_000,
		QueuePerUser:  32,
		StoreTimeout:  5 * time.Second,
		LockedTimeout: 4 * time.Second,
		LockedPause:   20 * time.Millisecond,
	}
}

// Stored says what became of a batch.
type Stored struct {
	Received int           // events stored, and repeats within the batch; 0 for a user who is off
	Mode     activity.Mode // the mode that decided
	Version  int64         // the user's version that the mode was read with
}

// Writer stores batches in commit groups. Run must be running for Store to return.
type Writer struct {
	cfg    WriterConfig
	pool   *pgxpool.Pool
	log    *slog.Logger
	queue  *queue
	closed chan struct{}

	horizon atomic.Int64 // as the last group saw it, in seconds since the epoch
}

// NewWriter makes a Writer over pool.
func NewWriter(pool *pgxpool.Pool, log *slog.Logger, cfg WriterConfig) *Writer {
	w := &Writer{
		cfg:    cfg,
		pool:   pool,
		log:    log,
		queue:  newQueue(cfg.QueueEvents, cfg.QueuePerUser),
		closed: make(chan struct{}),
	}
	w.horizon.Store(math.MaxInt32) // not known yet: it may be anywhere
	return w
}

// request is a batch on its way. Exactly one send on done answers it.
type request struct {
	ctx    context.Context // the caller's wait; a group drops requests nobody waits for
	userID uuid.UUID
	batch  *Batch
	runs   []run
	done   chan outcome
	tries  int // how often the user was locked
}

type outcome struct {
	stored Stored
	err    error
}

// size is how much room the request takes: at least some, also when all of its events were refused.
func (r *request) size() int { return 1 + len(r.batch.Events) }

func (r *request) answer(s Stored, err error) { r.done <- outcome{s, err} }

// Store stores a batch of one user and returns when it is committed. Errors: ErrUnknownUser, ErrOverloaded, ErrUserBusy,
// ErrStopped, the context's, or that of the database.
func (w *Writer) Store(ctx context.Context, userID uuid.UUID, b *Batch) (Stored, error) {
	r := &request{ctx: ctx, userID: userID, batch: b, runs: runsOf(b.Events), done: make(chan outcome, 1)}
	if !w.queue.push(r) {
		return Stored{}, ErrOverloaded
	}
	select {
	case o := <-r.done:
		return o.stored, o.err
	case <-ctx.Done():
		return Stored{}, fmt.Errorf("wait to be stored: %w", ctx.Err())
	case <-w.closed:
		// The last group may have answered at the same moment.
		select {
		case o := <-r.done:
			return o.stored, o.err
		default:
			return Stored{}, ErrStopped
		}
	}
}

// Run stores what Store is given until ctx ends, then stores what still waits, and returns.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.closed)
	var g errgroup.Group
	for range max(w.cfg.Flushers, 1) {
		g.Go(func() error {
			f := newFlusher(w)
			for {
				select {
				case <-w.queue.ready:
					f.drain(ctx)
				case <-ctx.Done():
					f.finish(ctx)
					return nil
				}
			}
		})
	}
	return g.Wait()
}

// again gives a request whose user is locked another try after a pause, off the way of the others, until it has had its
// time.
func (w *Writer) again(r *request) {
	r.tries++
	if time.Duration(r.tries)*w.cfg.LockedPause > w.cfg.LockedTimeout {
		r.answer(Stored{}, ErrUserBusy)
		return
	}
	w.queue.park(r, w.cfg.LockedPause)
}

// EraseUserTx deletes everything that this package keeps of a user, in a transaction that holds both of the user's locks.
func EraseUserTx(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID) error {
	if err := dbsqlc.New().DeleteUserIngest(ctx, db, userID); err != nil {
		return fmt.Errorf("erase events: %w", err)
	}
	return store.DeleteMarksTx(ctx, db, userID)
}
