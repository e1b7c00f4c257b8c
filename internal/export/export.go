// Package export writes everything that is stored about a user as lines of JSON, for the user to take away.
//
// What there is, each domain knows of its own tables and tells by a SourceFunc, in one snapshot for all: what was finalized
// meanwhile is not there twice, nor missing. Rows go out as they are read, so that neither memory nor the wait for the first
// byte grows with the history.
//
// A snapshot holds a connection for as long as its reader takes. So a process runs only few exports at a time, of each user
// one at most, and each ends in bounded time.
package export

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
)

// ErrBusy means that an export of the user is under way, or as many others as a process runs. Nothing was written.
var ErrBusy = errors.New("an export is under way")

// Format is raised when what stands in the lines changes its meaning.
const Format = 1

const (
	defaultSlots   = 4
	defaultTimeout = 5 * time.Minute
	bufferBytes    = 32 << 10
)

// EmitFunc takes a row of a table: one JSON object on one line. It does not keep it.
type EmitFunc func(table string, row []byte) error

// SourceFunc tells all that a domain keeps of a user, in a transaction that reads one snapshot.
type SourceFunc func(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit EmitFunc) error

// Config bounds exports. Zero values mean the defaults.
type Config struct {
	Slots   int           // at a time in this process; 4
	Timeout time.Duration // of one; 5 min
}

// Exporter writes exports. It is safe for concurrent use.
type Exporter struct {
	db      store.Beginner
	clock   clock.Clock
	sources []SourceFunc
	timeout time.Duration
	slots   chan struct{}

	mu   sync.Mutex
	busy map[uuid.UUID]bool
}

// New makes an Exporter of all that sources tell, in their order. The first one fails for a user who does not exist.
func New(db store.Beginner, c clock.Clock, cfg Config, sources ...SourceFunc) *Exporter {
	if cfg.Slots <= 0 {
		cfg.Slots = defaultSlots
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	return &Exporter{
		db: db, clock: c, sources: sources, timeout: cfg.Timeout,
		slots: make(chan struct{}, cfg.Slots), busy: map[uuid.UUID]bool{},
	}
}

// Export writes what is stored about a user to w: a first line that says what follows, a line for each row, and a last line
// with their number, without which it is not whole. It fails with ErrBusy, or with the first source's error, having written
// nothing, or with any other error at any time.
func (e *Exporter) Export(ctx context.Context, userID uuid.UUID, w io.Writer) error {
	if !e.enter(userID) {
		return ErrBusy
	}
	defer e.leave(userID)
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	out := &lines{w: bufio.NewWriterSize(w, bufferBytes)}
	err := store.WithSnapshot(ctx, e.db, func(ctx context.Context, tx pgx.Tx) error {
		out.put(map[string]any{"export": map[string]any{"format": Format, "at": e.clock.Now().UTC().Format(time.RFC3339)}})
		for _, tell := range e.sources {
			if err := tell(ctx, tx, userID, out.row); err != nil {
				return err
			}
		}
		out.put(map[string]any{"end": map[string]any{"rows": out.rows}})
		return out.err
	})
	if err != nil {
		return fmt.Errorf("export user: %w", err)
	}
	if err := out.w.Flush(); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

func (e *Exporter) enter(userID uuid.UUID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy[userID] {
		return false
	}
	select {
	case e.slots <- struct{}{}:
		e.busy[userID] = true
		return true
	default:
		return false
	}
}

func (e *Exporter) leave(userID uuid.UUID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.busy, userID)
	<-e.slots
}

// lines writes lines. The first error stays.
type lines struct {
	w    *bufio.Writer
	rows int64
	err  error
}

func (l *lines) put(v any) {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = l.w.Write(append(text, '\n'))
	}
	if l.err == nil {
		l.err = err
	}
}

// row is an EmitFunc. The names of tables are ours, and need no escaping.
func (l *lines) row(table string, row []byte) error {
	if l.err != nil {
		return l.err
	}
	l.rows++
	for _, part := range [...][]byte{[]byte(`{"table":"`), []byte(table), []byte(`","row":`), row, []byte("}\n")} {
		if _, err := l.w.Write(part); err != nil {
			l.err = err
			return err
		}
	}
	return nil
}

// Table is a table, or a kind of its rows, and the statement that reads a user's as one JSON object each.
type Table struct{ Name, SQL string }

// Rows tells the rows of tables as they are read.
func Rows(ctx context.Context, tx pgx.Tx, userID uuid.UUID, emit EmitFunc, tables ...Table) error {
	for _, t := range tables {
		rows, err := tx.Query(ctx, t.SQL, userID)
		if err != nil {
			return fmt.Errorf("read %s: %w", t.Name, err)
		}
		var row pgtype.DriverBytes
		_, err = pgx.ForEachRow(rows, []any{&row}, func() error { return emit(t.Name, row) })
		if err != nil {
			return fmt.Errorf("read %s: %w", t.Name, err)
		}
	}
	return nil
}
