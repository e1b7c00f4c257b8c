package writebehind

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

//go:embed lua/debounce_add.lua
var debounceAddLua string

//go:embed lua/debounce_arm.lua
var debounceArmLua string

//go:embed lua/debounce_take.lua
var debounceTakeLua string

//go:embed lua/debounce_done.lua
var debounceDoneLua string

//go:embed lua/debounce_back.lua
var debounceBackLua string

//go:embed lua/debounce_left.lua
var debounceLeftLua string

//go:embed lua/debounce_flush.lua
var debounceFlushLua string

var (
	debounceAddScript   = redis.NewScript(debounceAddLua)
	debounceArmScript   = redis.NewScript(debounceArmLua)
	debounceTakeScript  = redis.NewScript(debounceTakeLua)
	debounceDoneScript  = redis.NewScript(debounceDoneLua)
	debounceBackScript  = redis.NewScript(debounceBackLua)
	debounceLeftScript  = redis.NewScript(debounceLeftLua)
	debounceFlushScript = redis.NewScript(debounceFlushLua)
)

// Flush is deltas that were taken together and are applied together, once.
type Flush struct {
	ID      uuid.UUID
	TakenAt time.Time // by Redis's clock
	Records []uuid.UUID
	Deltas  []int64 // of the records, in the same order
}

// take takes the records' deltas for a new flush. held are older flushes in which some of them stand.
func (k debounceKeys) take(ctx context.Context, rdb redis.UniversalClient, records []uuid.UUID) (f Flush, held []uuid.UUID, err error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return f, nil, fmt.Errorf("make flush id: %w", err)
	}
	answer, err := debounceTakeScript.Run(ctx, rdb, []string{k.deltas, k.due, k.processing}, debounceArgs(id, records)...).Slice()
	if err != nil {
		return f, nil, fmt.Errorf("take deltas: %w", err)
	}
	if len(answer) != 3 {
		return f, nil, fmt.Errorf("take deltas: %w", errDebounceAnswer)
	}
	if f, err = readDebounceFlush(id, answer[0], answer[1]); err != nil {
		return f, nil, fmt.Errorf("take deltas: %w", err)
	}
	held, err = readIDs(answer[2])
	return f, held, err
}

// flush reads what stands of a flush; it has no records when nothing does.
func (k debounceKeys) flush(ctx context.Context, rdb redis.UniversalClient, id uuid.UUID) (Flush, error) {
	answer, err := debounceFlushScript.Run(ctx, rdb, []string{k.processing}, id.String()).Slice()
	if err != nil {
		return Flush{}, fmt.Errorf("read flush: %w", err)
	}
	if len(answer) != 2 {
		return Flush{ID: id}, nil
	}
	return readDebounceFlush(id, answer[0], answer[1])
}

// done forgets a flush that was applied.
func (k debounceKeys) done(ctx context.Context, rdb redis.UniversalClient, f Flush) error {
	if err := debounceDoneScript.Run(ctx, rdb, []string{k.processing}, debounceArgs(f.ID, f.Records)...).Err(); err != nil {
		return fmt.Errorf("forget flush: %w", err)
	}
	return nil
}

// back gives the deltas of a flush back that will never be applied.
func (k debounceKeys) back(ctx context.Context, rdb redis.UniversalClient, f Flush) error {
	if err := debounceBackScript.Run(ctx, rdb, []string{k.deltas, k.due, k.processing}, debounceArgs(f.ID, f.Records)...).Err(); err != nil {
		return fmt.Errorf("give flush back: %w", err)
	}
	return nil
}

// left is what has been left behind for the given time: records that are due, and flushes that were taken.
func (k debounceKeys) left(ctx context.Context, rdb redis.UniversalClient, grace time.Duration, most int) (due, flushes []uuid.UUID, err error) {
	answer, err := debounceLeftScript.Run(ctx, rdb, []string{k.due, k.processing}, grace.Milliseconds(), most).Slice()
	if err != nil {
		return nil, nil, fmt.Errorf("look for what was left: %w", err)
	}
	if len(answer) != 2 {
		return nil, nil, fmt.Errorf("look for what was left: %w", errDebounceAnswer)
	}
	if due, err = readIDs(answer[0]); err != nil {
		return nil, nil, err
	}
	flushes, err = readIDs(answer[1])
	return due, flushes, err
}

func debounceArgs(id uuid.UUID, records []uuid.UUID) []any {
	list := make([]any, 0, len(records)+1)
	list = append(list, id.String())
	for _, r := range records {
		list = append(list, r.String())
	}
	return list
}

// readFlush reads when, and record, delta, record, delta...
func readDebounceFlush(id uuid.UUID, when, pairs any) (Flush, error) {
	f := Flush{ID: id}
	ms, err := readNumber(when)
	if err != nil {
		return f, err
	}
	f.TakenAt = time.UnixMilli(ms)
	list, ok := pairs.([]any)
	if !ok || len(list)%2 != 0 {
		return f, errDebounceAnswer
	}
	for i := 0; i < len(list); i += 2 {
		record, err := readID(list[i])
		if err != nil {
			return f, err
		}
		n, err := readNumber(list[i+1])
		if err != nil {
			return f, err
		}
		f.Records, f.Deltas = append(f.Records, record), append(f.Deltas, n)
	}
	return f, nil
}

func readNumber(v any) (int64, error) {
	s, ok := v.(string)
	if !ok {
		return 0, errDebounceAnswer
	}
	return strconv.ParseInt(s, 10, 64)
}

func readID(v any) (uuid.UUID, error) {
	s, ok := v.(string)
	if !ok {
		return uuid.Nil, errDebounceAnswer
	}
	return uuid.Parse(s)
}

func readIDs(v any) ([]uuid.UUID, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errDebounceAnswer
	}
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		var err error
		if ids[i], err = readID(list[i]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}
