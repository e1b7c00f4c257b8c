package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ErrPending means that a user could not be brought to all boards now. The user stays pending, so nothing is lost.
var ErrPending = errors.New("boards are not up to date yet")

// errBoard means that one board failed; the others may be well.
var errBoard = errors.New("publish to board")

const (
	// pageUsers are published at a time. It bounds a round's memory, its statements and the rows of one script.
	pageUsers = 200
	// maxRounds is how often a page is read again. Two are usual for a process that has just started (it learns the
	// generations in the first); more are needed only while boards are built anew or users change.
	maxRounds = 5
	// buildPoll is how often PublishUsers looks whether a build is over.
	buildPoll = 50 * time.Millisecond
)

// Publisher brings pending users to the boards. It is safe for concurrent use, in any number of processes.
type Publisher struct {
	db      dbsqlc.DBTX
	boards  *leaderboard.Boards
	builder *leaderboard.Builder
	langs   []string
	known   generations
}

// New makes a Publisher on a pool. languages are the keys that have boards, the same that the builder was given.
func New(db dbsqlc.DBTX, boards *leaderboard.Boards, builder *leaderboard.Builder, languages []string) *Publisher {
	return &Publisher{db: db, boards: boards, builder: builder, langs: languages}
}

// Stats says what was published.
type Stats struct {
	Users   int `json:"users"`   // brought to all their boards and no longer pending
	Left    int `json:"left"`    // still pending
	Boards  int `json:"boards"`  // publications that boards took
	Rows    int `json:"rows"`    // places in them, removals included
	Refused int `json:"refused"` // places refused because the board knew a newer version of the user
	Built   int `json:"built"`   // boards made from totals
	Failed  int `json:"failed"`  // builds that came to nothing: they failed, or their token was lost

	absent int // publications for boards that are not there but should be
	noted  int // of Left, who are to be removed from boards that will come up without them
}

// Absent says whether boards are missing that should be there: then a Cycle is due.
func (s *Stats) Absent() bool { return s.absent > 0 }

func (s *Stats) add(o Stats) {
	s.Users += o.Users
	s.Left += o.Left
	s.Boards += o.Boards
	s.Rows += o.Rows
	s.Refused += o.Refused
	s.Built += o.Built
	s.Failed += o.Failed
	s.absent += o.absent
	s.noted += o.noted
}

// Cycle is what a publisher's loop does each time: build the kept boards that are missing, publish who is pending, and
// build what turned out to be missing still, such as the first board of a language. Redis's clock decides which spans are
// kept; here and below, now replaces it in tests, and nil is for everybody else.
// A board that cannot be built keeps nobody from the others.
func (p *Publisher) Cycle(ctx context.Context, now *time.Time) (Stats, error) {
	total, errBuild := p.ensure(ctx, now)
	published, err := p.PublishPending(ctx, now)
	total.add(published)
	if err != nil || published.absent == 0 {
		return total, errors.Join(err, errBuild)
	}
	built, errBuild := p.ensure(ctx, now)
	total.add(built)
	// Who changed while these were built had to wait.
	published, err = p.PublishPending(ctx, now)
	total.add(published)
	total.Left = published.Left
	return total, errors.Join(err, errBuild)
}

func (p *Publisher) ensure(ctx context.Context, now *time.Time) (Stats, error) {
	done, err := p.builder.EnsureKept(ctx, now)
	s := Stats{Built: done.Built, Failed: done.Failed}
	if err != nil {
		return s, fmt.Errorf("build missing boards: %w", err)
	}
	return s, nil
}

// PublishPending publishes all pending users, once each. Users who are left stay pending; an error means that something
// kept them from the boards, and is the first one that did.
func (p *Publisher) PublishPending(ctx context.Context, now *time.Time) (Stats, error) {
	var total Stats
	var first error
	for after := uuid.Nil; ; {
		ids, err := dbsqlc.New().OutboxListPending(ctx, p.db, after, pageUsers)
		if err != nil {
			return total, fmt.Errorf("list pending users: %w", err)
		}
		if len(ids) == 0 {
			return total, first
		}
		after = ids[len(ids)-1]
		s, err := p.publish(ctx, now, ids, false)
		total.add(s)
		if first == nil {
			first = err
		}
		if err != nil && !errors.Is(err, errBoard) {
			return total, first // it would be the same for the next page
		}
	}
}

// PublishUsers brings users to the boards now, for those who must not answer before. It waits while one of their boards
// is being built, until ctx ends, unless they only leave that board: then it is enough that the board will come up without
// them. The error is ErrPending when a user could not be brought to all boards, and leaderboard.ErrAway too when Redis did not
// answer, and does not now: then boards are not read either.
func (p *Publisher) PublishUsers(ctx context.Context, now *time.Time, ids ...uuid.UUID) error {
	for len(ids) > 0 {
		page := ids[:min(pageUsers, len(ids))]
		ids = ids[len(page):]
		s, err := p.publish(ctx, now, page, true)
		switch {
		case errors.Is(err, leaderboard.ErrAway) && p.boards.Answers(ctx):
			return fmt.Errorf("publish users: %w: %s", ErrPending, err.Error()) // and not that Redis is away
		case err != nil:
			return fmt.Errorf("publish users: %w: %w", ErrPending, err)
		}
		if s.Left > s.noted {
			return fmt.Errorf("publish users: %w", ErrPending)
		}
	}
	return nil
}

// publish runs rounds over a page of users until all are done or nothing more can be done now. With wait it waits for
// boards that are being built; without, their users are left.
func (p *Publisher) publish(ctx context.Context, now *time.Time, ids []uuid.UUID, wait bool) (total Stats, err error) {
	var first error // of boards that failed
	pending := ids
	for n := 0; n < maxRounds && len(pending) > 0; n++ {
		r, err := p.round(ctx, now, pending)
		if err != nil {
			total.Left += len(pending)
			return total, err
		}
		total.add(r.stats)
		if first == nil {
			first = r.err
		}
		pending = r.again
		switch {
		case len(r.waiting) == 0:
		case !wait:
			total.Left += len(r.waiting)
		default:
			pending = append(pending, r.waiting...)
			if err := p.awaitBuilt(ctx, r.building); err != nil {
				total.Left += len(pending)
				return total, err
			}
		}
	}
	total.Left += len(pending)
	return total, first
}

// awaitBuilt waits until nobody is building any of the boards.
func (p *Publisher) awaitBuilt(ctx context.Context, boards []leaderboard.Board) error {
	tick := time.NewTicker(buildPoll)
	defer tick.Stop()
	for {
		states, err := p.boards.States(ctx, boards)
		switch {
		case ctx.Err() != nil:
			return ctx.Err() // it was the time that was up, not Redis that was away
		case err != nil:
			return err
		}
		if !slices.ContainsFunc(states, func(s leaderboard.State) bool { return s.Building }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Backlog is how many users are pending, and for how long the first of them has been.
func (p *Publisher) Backlog(ctx context.Context) (pending int64, oldest time.Duration, err error) {
	row, err := dbsqlc.New().OutboxBacklog(ctx, p.db)
	if err != nil {
		return 0, 0, fmt.Errorf("read outbox backlog: %w", err)
	}
	return row.Pending, time.Duration(row.OldestS * float64(time.Second)), nil
}
