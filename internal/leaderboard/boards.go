package leaderboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// ErrAway means that Redis did not answer. While it does not, pages come from Postgres.
var ErrAway = errors.New("no answer from Redis")

// away marks an error that says so.
func away(err error) error {
	if answered(err) || errors.Is(err, errAnswer) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

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
	// Building means that somebody is building the board and may have read before the publication was made. Removals may
	// have been noted nevertheless: see the outcome's Noted.
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
	Noted      bool   // with Building: the board will come up without the users that were to be removed
	Err        error  // with Broken
}

// Time is the time by Redis's clock, in whole seconds. On a cluster it is that of any node: their clocks must not differ
// by more than the fence allows for, which is hours.
func (b *Boards) Time(ctx context.Context) (time.Time, error) {
	t, err := b.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask Redis for the time: %w", away(err))
	}
	return t.Truncate(time.Second), nil
}

// answerWait is how long Answers waits: longer than a page does before it turns to Postgres.
const answerWait = 500 * time.Millisecond

// Answers says whether Redis answers now, however little of ctx is left. A call whose own time was up does not tell.
func (b *Boards) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
	defer cancel()
	_, err := b.Time(ctx)
	return err == nil
}

// Present is the time by which spans are chosen: that of Redis's clock, which also ends the boards, and never that of a
// process. at replaces it, in tests; nil is for everybody else.
func (b *Boards) Present(ctx context.Context, at *time.Time) (time.Time, error) {
	if at != nil {
		return *at, nil
	}
	return b.Time(ctx)
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
			return nil, fmt.Errorf("publish to boards: %w", away(err))
		}
		outcomes = append(outcomes, some...)
		pubs = pubs[n:]
	}
	return outcomes, nil
}

func (b *Boards) publish(ctx context.Context, pubs []Publication) ([]Outcome, error) {
	outcomes, err := b.send(ctx, pubs)
	if err != nil {
		return nil, err
	}
	var full []int
	for i := range outcomes {
		if outcomes[i].noMemory() && pubs[i].removes() {
			full = append(full, i)
		}
	}
	if len(full) == 0 {
		return outcomes, nil
	}
	return outcomes, b.dropAndSend(ctx, pubs, outcomes, full)
}

// send runs the script once for each publication.
func (b *Boards) send(ctx context.Context, pubs []Publication) ([]Outcome, error) {
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

// dropAndSend removes boards of which somebody is to be removed and that Redis has no memory to write to: a full Redis still
// takes UNLINK. Readers turn to Postgres at once. What became of the publications the script then says.
func (b *Boards) dropAndSend(ctx context.Context, pubs []Publication, outcomes []Outcome, full []int) error {
	pipe := b.rdb.Pipeline()
	again := make([]Publication, len(full))
	for n, i := range full {
		k := pubs[i].Board.keys()
		pipe.Unlink(ctx, k.scores, k.members)
		again[n] = pubs[i]
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("drop boards for want of memory: %w", err)
	}
	repeated, err := b.send(ctx, again)
	if err != nil {
		return err
	}
	for n, i := range full {
		outcomes[i] = repeated[n]
	}
	return nil
}

func (o *Outcome) noMemory() bool { return o.Verdict == Broken && redis.HasErrorPrefix(o.Err, "OOM") }

// removes says whether a publication removes anybody.
func (p *Publication) removes() bool {
	return slices.ContainsFunc(p.Rows, func(r Row) bool { return r.Seconds == 0 })
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
	return call{keys: []string{k.scores, k.members, k.building, k.notes}, args: args}
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
	case int64(5):
		return Outcome{Verdict: Building, Noted: true}
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
		return nil, fmt.Errorf("ask for the state of boards: %w", away(err))
	}
	states := make([]State, len(boards))
	for i, cmd := range cmds {
		if states[i], err = stateOf(cmd); err != nil {
			return nil, fmt.Errorf("ask for the state of boards: %w", away(err))
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
			return nil, fmt.Errorf("ask which boards exist: %w", away(err))
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
