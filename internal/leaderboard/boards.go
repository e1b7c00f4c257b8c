package leaderboard

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Boards are the boards in Redis, as their publisher sees them. It holds no state and is safe for concurrent use.
type Boards struct {
	rdb redis.UniversalClient
}

// NewBoards makes the publisher's side of the boards in rdb.
func NewBoards(rdb redis.UniversalClient) *Boards { return &Boards{rdb: rdb} }

// Row is what a publication says about one user.
type Row struct {
	User    uuid.UUID
	Version int64
	Seconds int64 // 0 removes the user from the board
	Facts   Facts // not used for a removal
}

// Publication are absolute values for one board, all read after ReadAt and after Generation was learned.
type Publication struct {
	Board      Board
	Generation string // "" when none was learned yet: then the outcome says it
	ReadAt     time.Time
	Rows       []Row
}

// Verdict is what became of a publication.
type Verdict int

// The verdicts. After every one but Taken, no row was written.
const (
	// Taken is every row but the Refused ones.
	Taken Verdict = iota
	// Absent means that Redis has nothing of the board and that nobody is building it. There is nothing to publish into:
	// whoever builds it reads what was committed before the publication was made.
	Absent
	// Building means that somebody is building the board and may have read before the publication was made.
	Building
	// OtherBoard means that the board is of another generation, which the outcome names.
	OtherBoard
	// ReadTooLong means that the values were read over an hour ago.
	ReadTooLong
	// Broken means that the script failed for this board; the outcome's Err says why.
	Broken
)

// Outcome is the answer to one publication.
type Outcome struct {
	Verdict    Verdict
	Generation string // with OtherBoard
	Refused    []int  // with Taken: positions of the rows that the board knows a newer version of
	Err        error  // with Broken
}

// Time is the time by Redis's clock, in whole seconds. On a cluster it is that of any node: their clocks must not differ
// by more than the fence allows for, which is hours.
func (b *Boards) Time(ctx context.Context) (time.Time, error) {
	t, err := b.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask Redis for the time: %w", err)
	}
	return t.Truncate(time.Second), nil
}

// pipelineRows bounds what is sent to Redis in one pipeline, give or take one publication.
const pipelineRows = 5000

// Publish sends publications, in few round trips, and returns an outcome for each. After an error some of them may have
// been taken and some not. One publication is one run of a script: the caller bounds its rows.
func (b *Boards) Publish(ctx context.Context, pubs []Publication) ([]Outcome, error) {
	outcomes := make([]Outcome, 0, len(pubs))
	for len(pubs) > 0 {
		n, rows := 0, 0
		for n < len(pubs) && rows < pipelineRows {
			rows += len(pubs[n].Rows)
			n++
		}
		some, err := b.publish(ctx, pubs[:n])
		if err != nil {
			return nil, fmt.Errorf("publish to boards: %w", err)
		}
		outcomes = append(outcomes, some...)
		pubs = pubs[n:]
	}
	return outcomes, nil
}

func (b *Boards) publish(ctx context.Context, pubs []Publication) ([]Outcome, error) {
	calls := make([]call, len(pubs))
	for i := range pubs {
		calls[i] = pubs[i].call()
	}
	cmds, err := runMany(ctx, b.rdb, publishScript, calls)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(pubs))
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil && !isReply(err) {
			return nil, err // Redis did not answer: no use in going on
		}
		outcomes[i] = outcomeOf(cmd, len(pubs[i].Rows))
	}
	return outcomes, nil
}

func (p *Publication) call() call {
	k := p.Board.keys()
	args := make([]any, 0, 2+4*len(p.Rows))
	args = append(args, p.Generation, p.ReadAt.Unix())
	for i := range p.Rows {
		r := &p.Rows[i]
		facts := ""
		if r.Seconds > 0 {
			facts = r.Facts.pack()
		}
		args = append(args, memberOf(r.User), r.Version, r.Seconds, facts)
	}
	return call{keys: []string{k.scores, k.members, k.building}, args: args}
}

// outcomeOf reads what publish.lua returned for a number of rows.
func outcomeOf(cmd *redis.Cmd, rows int) Outcome {
	values, err := list(cmd, 1)
	if err != nil {
		return broken(err)
	}
	switch values[0] {
	case int64(0):
		return takenOutcome(values[1:], rows)
	case int64(1):
		return Outcome{Verdict: Absent}
	case int64(2):
		return Outcome{Verdict: Building}
	case int64(3):
		if len(values) == 2 {
			if generation, ok := values[1].(string); ok {
				return Outcome{Verdict: OtherBoard, Generation: generation}
			}
		}
	case int64(4):
		return Outcome{Verdict: ReadTooLong}
	}
	return broken(errAnswer)
}

func takenOutcome(positions []any, rows int) Outcome {
	numbers, err := integers(positions)
	if err != nil {
		return broken(err)
	}
	refused := make([]int, len(numbers))
	for i, n := range numbers {
		if n < 1 || n > int64(rows) {
			return broken(errAnswer)
		}
		refused[i] = int(n) - 1
	}
	return Outcome{Verdict: Taken, Refused: refused}
}

func broken(err error) Outcome { return Outcome{Verdict: Broken, Err: err} }

// State is what Redis has of a board.
type State struct {
	Generation string // "" when there is no whole board
	Building   bool   // somebody is building it
}

// States tells the state of each board, in one round trip.
func (b *Boards) States(ctx context.Context, boards []Board) ([]State, error) {
	calls := make([]call, len(boards))
	for i, board := range boards {
		k := board.keys()
		calls[i] = call{keys: []string{k.scores, k.members, k.building}}
	}
	cmds, err := runMany(ctx, b.rdb, stateScript, calls)
	if err != nil {
		return nil, fmt.Errorf("ask for the state of boards: %w", err)
	}
	states := make([]State, len(boards))
	for i, cmd := range cmds {
		if states[i], err = stateOf(cmd); err != nil {
			return nil, fmt.Errorf("ask for the state of boards: %w", err)
		}
	}
	return states, nil
}

func stateOf(cmd *redis.Cmd) (State, error) {
	values, err := list(cmd, 2)
	if isReply(err) {
		// The server is there but the script failed: a key of the board is of another type. A build removes it; if the
		// cause is another one, the build says so.
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	generation, ok := values[0].(string)
	flags, err := integers(values[1:])
	if !ok || err != nil {
		return State{}, errAnswer
	}
	return State{Generation: generation, Building: flags[0] == 1}, nil
}

// existBatch bounds how many keys are asked for in one pipeline.
const existBatch = 2000

// Existing are those of the boards that Redis has anything of, or that somebody is building. It is for asking about very
// many boards, of which few exist.
func (b *Boards) Existing(ctx context.Context, boards []Board) ([]Board, error) {
	var found []Board
	for len(boards) > 0 {
		n := min(existBatch, len(boards))
		pipe := b.rdb.Pipeline()
		cmds := make([]*redis.IntCmd, n)
		for i, board := range boards[:n] {
			k := board.keys()
			cmds[i] = pipe.Exists(ctx, k.scores, k.members, k.building)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("ask which boards exist: %w", err)
		}
		for i, cmd := range cmds {
			if cmd.Val() > 0 {
				found = append(found, boards[i])
			}
		}
		boards = boards[n:]
	}
	return found, nil
}
