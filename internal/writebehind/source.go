package writebehind

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

//go:embed lua/take.lua
var takeLua string

//go:embed lua/read.lua
var readLua string

//go:embed lua/done.lua
var doneLua string

var (
	takeScript = redis.NewScript(takeLua)
	readScript = redis.NewScript(readLua)
	doneScript = redis.NewScript(doneLua)
)

// Batch is one taking of a batch.
type Batch struct {
	ID    uuid.UUID // the flush id
	Taken int64     // how often it had been taken, this time included
}

// Source hands out batches of one buffer in one shard.
type Source interface {
	// Take takes the batch that is there. ok is false when there is nothing.
	Take(ctx context.Context) (b Batch, ok bool, err error)
	// Read is all of the batch. It fails with ErrGone when the batch is not there any more.
	Read(ctx context.Context, b Batch) (map[string]string, error)
	// Done removes the batch after it was applied, unless it was taken again since.
	Done(ctx context.Context, b Batch) error
}

// ErrGone means that somebody else has finished the batch.
var ErrGone = errors.New("the batch is done")

// errAnswer is an answer that the script at hand does not give.
var errAnswer = errors.New("unexpected answer of a script")

// redisSource is the Source that Redis holds.
type redisSource struct {
	rdb  redis.UniversalClient
	keys Keys
}

// NewSource is the source of a buffer's batches.
func NewSource(rdb redis.UniversalClient, k Keys) Source { return redisSource{rdb, k} }

func (s redisSource) Take(ctx context.Context) (Batch, bool, error) {
	var fresh uuid.UUID
	_, _ = rand.Read(fresh[:]) // never fails: the runtime ends the process instead
	values, err := takeScript.Run(ctx, s.rdb, []string{s.keys.Buf, s.keys.Proc, s.keys.Meta}, fresh.String()).Slice()
	if err != nil {
		return Batch{}, false, fmt.Errorf("take batch: %w", err)
	}
	if len(values) == 0 {
		return Batch{}, false, nil
	}
	if len(values) != 2 {
		return Batch{}, false, fmt.Errorf("take batch: %w", errAnswer)
	}
	text, okText := values[0].(string)
	taken, okTaken := values[1].(int64)
	id, err := uuid.Parse(text)
	if !okText || !okTaken || err != nil {
		return Batch{}, false, fmt.Errorf("take batch: %w", errAnswer)
	}
	return Batch{ID: id, Taken: taken}, true, nil
}

// scanCount is about how many fields one step of a scan returns.
const scanCount = 2000

// Read walks the batch. Nothing is added to a batch, so a scan sees all of it, some of it perhaps twice. Each step also tells
// whose batch it is, since under the same key there may be the next one by now, and which server answers: one that was started
// anew, or promoted, does not know the cursor of the one before, so the walk begins again.
func (s redisSource) Read(ctx context.Context, b Batch) (map[string]string, error) {
	entries, server := make(map[string]string), ""
	for cursor := "0"; ; {
		p, err := s.part(ctx, cursor)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read batch: %w", err)
		case p.id != b.ID.String():
			return nil, ErrGone
		case cursor != "0" && p.server != server:
			cursor = "0"
			clear(entries)
			continue
		}
		server = p.server
		for i := 0; i+1 < len(p.fields); i += 2 {
			entries[p.fields[i]] = p.fields[i+1]
		}
		if cursor = p.next; cursor == "0" {
			return entries, nil
		}
	}
}

// part is what read.lua returns.
type part struct {
	id, server, next string
	fields           []string // field, value, field, value...
}

func (s redisSource) part(ctx context.Context, cursor string) (p part, err error) {
	values, err := readScript.Run(ctx, s.rdb, []string{s.keys.Proc, s.keys.Meta}, cursor, scanCount).Slice()
	if err != nil {
		return p, err
	}
	if len(values) != 4 {
		return p, errAnswer
	}
	for i, to := range []*string{&p.id, &p.server, &p.next} {
		text, ok := values[i].(string)
		if !ok {
			return p, errAnswer
		}
		*to = text
	}
	fields, ok := values[3].([]any)
	if !ok {
		return p, errAnswer
	}
	p.fields = make([]string, len(fields))
	for i, f := range fields {
		if p.fields[i], ok = f.(string); !ok {
			return p, errAnswer
		}
	}
	return p, nil
}

func (s redisSource) Done(ctx context.Context, b Batch) error {
	keys := []string{s.keys.Proc, s.keys.Meta}
	if err := doneScript.Run(ctx, s.rdb, keys, b.ID.String(), strconv.FormatInt(b.Taken, 10)).Err(); err != nil {
		return fmt.Errorf("remove flushed batch: %w", err)
	}
	return nil
}
