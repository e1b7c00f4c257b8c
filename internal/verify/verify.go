package verify

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
)

// Deps are what a Checker works with.
type Deps struct {
	DB        *pgxpool.Pool
	Finalizer *aggregate.Finalizer
	Boards    *leaderboard.Verifier
	Builder   *leaderboard.Builder
	Publisher *outbox.Publisher
	Clock     clock.Clock // for how long a pass takes
	Now       *time.Time  // replaces Redis's clock for choosing boards, in tests; nil is for everybody else
	Log       *slog.Logger
}

// Checker compares and heals. It is safe for concurrent use.
type Checker struct{ Deps }

// New makes a Checker.
func New(d Deps) *Checker { return &Checker{d} }

// DefaultPage is how many users are compared at a time: some tens of milliseconds of each server.
const DefaultPage = 500

// KindPlace is the kind of drift of boards, beside aggregate's kinds.
const KindPlace = "board"

// Options say how a pass goes. The zero value checks at full speed and heals nothing.
type Options struct {
	Heal  bool
	Page  int                                // users at a time; 0 means DefaultPage
	Pause func(ctx context.Context) error    // between two pages; nil for none
	Step  func(done, all int64, what string) // progress; nil for none
	Anew  bool                               // start at a random user or board, so that a pass cut short often still covers all
	// Observe is told of drift as it is found, with how much of it was healed; nil for nobody.
	Observe func(kind string, found, healed int64)
	// except are users who are known to be wrong in Postgres and were not healed, by what is: their places may be right, and are
	// not to be compared with that.
	except map[uuid.UUID]aggregate.DriftKind
}

func (o Options) withDefaults() Options {
	if o.Page <= 0 {
		o.Page = DefaultPage
	}
	if o.Pause == nil {
		o.Pause = func(ctx context.Context) error { return ctx.Err() }
	}
	if o.Observe == nil {
		o.Observe = func(string, int64, int64) {}
	}
	if o.Step == nil {
		o.Step = func(int64, int64, string) {}
	}
	return o
}

// All checks users, then boards. Of users whose totals or streaks were found wrong, and were not healed, the places are
// compared with their sessions: else they would count as wrong because they are right.
func (c *Checker) All(ctx context.Context, o Options) (Result, error) {
	o.except = make(map[uuid.UUID]aggregate.DriftKind)
	total, err := c.Users(ctx, o)
	if err != nil {
		return total, err
	}
	boards, err := c.CheckBoards(ctx, o)
	total.Add(boards)
	return total, err
}

// Users checks what Postgres holds of each user.
func (c *Checker) Users(ctx context.Context, o Options) (r Result, err error) {
	began := c.Clock.Now()
	o = o.withDefaults()
	defer func() {
		r.TookS = c.Clock.Now().Sub(began).Seconds()
		r.sum()
	}()
	all, err := aggregate.CountUsers(ctx, c.DB)
	if err != nil {
		return r, err
	}
	var start uuid.UUID
	if o.Anew {
		start = uuid.New()
	}
	for after, wrapped := start, start == uuid.Nil; ; {
		ids, err := aggregate.UsersAfter(ctx, c.DB, after, o.Page)
		if err != nil {
			return r, err
		}
		if wrapped && start != uuid.Nil {
			ids = upTo(ids, start)
		}
		switch {
		case len(ids) > 0:
			after = ids[len(ids)-1]
		case wrapped:
			return r, nil
		default:
			after, wrapped = uuid.Nil, true
			continue
		}
		if err := c.usersPage(ctx, ids, &o, &r); err != nil {
			return r, err
		}
		o.Step(r.Users, all, "users")
		if err := o.Pause(ctx); err != nil {
			return r, err
		}
	}
}

// upTo are the ids that are not after the last.
func upTo(ids []uuid.UUID, last uuid.UUID) []uuid.UUID {
	for i := range ids {
		if bytes.Compare(ids[i][:], last[:]) > 0 {
			return ids[:i]
		}
	}
	return ids
}

func (c *Checker) usersPage(ctx context.Context, ids []uuid.UUID, o *Options, r *Result) error {
	found, err := aggregate.Verify(ctx, c.DB, ids)
	if err != nil {
		return err
	}
	r.Users += int64(len(ids))
	repairs := make(map[uuid.UUID]*aggregate.Repair)
	for i := range found {
		d := &found[i]
		r.of(d.Kind).found(d.Rows, d.Seconds)
		repairs[d.User] = &aggregate.Repair{User: d.User}
		c.Log.WarnContext(ctx, "drift", "user_id", d.User, "kind", d.Kind, "rows", d.Rows, "seconds", d.Seconds)
	}
	var healed map[uuid.UUID]bool
	if o.Heal {
		healed, err = c.heal(ctx, repairs)
	}
	for i := range found {
		var n int64
		if healed[found[i].User] {
			n = 1
		} else {
			o.spare(&found[i])
		}
		r.of(found[i].Kind).Healed += n
		o.Observe(string(found[i].Kind), 1, n)
	}
	return err
}

// spare notes who is left with drift. Wrong totals count more than a wrong streak or number.
func (o *Options) spare(d *aggregate.Drift) {
	if o.except == nil || d.Kind == aggregate.DriftSession {
		return // places are right if they are what the totals are
	}
	if o.except[d.User] != aggregate.DriftTotal {
		o.except[d.User] = d.Kind
	}
}

func (r *Result) of(kind aggregate.DriftKind) *Count {
	switch kind {
	case aggregate.DriftSession:
		return &r.Sessions
	case aggregate.DriftTotal:
		return &r.Totals
	case aggregate.DriftCount:
		return &r.Counts
	default:
		return &r.Streaks
	}
}

func (c *Count) found(rows, seconds int64) {
	c.Users++
	c.Rows += rows
	c.Seconds += seconds
}

// CheckBoards checks every board of the kept spans.
func (c *Checker) CheckBoards(ctx context.Context, o Options) (r Result, err error) {
	began := c.Clock.Now()
	o = o.withDefaults()
	defer func() {
		r.TookS = c.Clock.Now().Sub(began).Seconds()
		r.sum()
	}()
	boards, err := c.Builder.Written(ctx, c.Now)
	if err != nil {
		return r, err
	}
	if o.Anew {
		rand.Shuffle(len(boards), func(i, j int) { boards[i], boards[j] = boards[j], boards[i] })
	}
	for i, board := range boards {
		if err := c.board(ctx, board, &o, &r); err != nil {
			return r, err
		}
		o.Step(int64(i)+1, int64(len(boards)), "boards")
		if err := o.Pause(ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (c *Checker) board(ctx context.Context, board leaderboard.Board, o *Options, r *Result) error {
	audited, err := c.Boards.Verify(ctx, board, leaderboard.Audit{
		Page: o.Page, Pause: o.Pause,
		Found: func(ctx context.Context, misplaced []leaderboard.Misplaced) error {
			return c.misplaced(ctx, board, misplaced, o, r)
		},
	})
	r.Boards++
	r.Members += audited.Members
	if audited.Unbuilt {
		r.Unbuilt++
	}
	return err
}

func (c *Checker) misplaced(
	ctx context.Context, board leaderboard.Board, misplaced []leaderboard.Misplaced, o *Options, r *Result,
) error {
	misplaced, err := c.unexplained(ctx, board, misplaced, o)
	if err != nil {
		return err
	}
	repairs := make(map[uuid.UUID]*aggregate.Repair, len(misplaced))
	for _, m := range misplaced {
		r.Places.found(1, max(m.Shown-m.Seconds, m.Seconds-m.Shown))
		c.Log.WarnContext(ctx, "drift", "user_id", m.User, "kind", KindPlace, "fault", m.Fault, "period", board.Period,
			"starts_on", board.StartsOn, "lang", board.Lang, "shown", m.Shown, "seconds", m.Seconds)
		user := m.User
		if m.Held > leaderboard.MaxVersion {
			user = uuid.Nil // no version is newer
		}
		repairs[user] = &aggregate.Repair{
			User: user, Above: max(m.Held, 1), Shown: []aggregate.ShownTotal{{Span: board.Span, Lang: board.Lang}},
		}
	}
	found := int64(len(repairs))
	if !o.Heal {
		o.Observe(KindPlace, found, 0)
		return nil
	}
	healed, err := c.healPlaces(ctx, board, repairs)
	r.Places.Healed += healed
	o.Observe(KindPlace, found, healed)
	return err
}

// unexplained are those misplaced of whom it is not Postgres that is known to be wrong.
func (c *Checker) unexplained(
	ctx context.Context, board leaderboard.Board, misplaced []leaderboard.Misplaced, o *Options,
) ([]leaderboard.Misplaced, error) {
	var ids []uuid.UUID
	for _, m := range misplaced {
		if o.except[m.User] == aggregate.DriftTotal {
			ids = append(ids, m.User)
		}
	}
	var seconds map[uuid.UUID]int64
	if len(ids) > 0 {
		var err error
		if seconds, err = aggregate.SessionSeconds(ctx, c.DB, ids, aggregate.ShownTotal{Span: board.Span, Lang: board.Lang}); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(misplaced, func(m leaderboard.Misplaced) bool {
		kind, known := o.except[m.User]
		switch {
		case !known || m.Fault == leaderboard.FaultVersion:
			return false
		case m.Fault == leaderboard.FaultValue:
			return true // the facts follow from totals and streak
		}
		return kind == aggregate.DriftTotal && m.Shown == seconds[m.User]
	}), nil
}

// healPlaces heals the users of wrong places, and builds a board anew where a place is no user's (there is nothing to publish
// then) or holds a version that is none.
func (c *Checker) healPlaces(
	ctx context.Context, board leaderboard.Board, repairs map[uuid.UUID]*aggregate.Repair,
) (int64, error) {
	var built int64
	if _, ok := repairs[uuid.Nil]; ok {
		delete(repairs, uuid.Nil)
		if _, err := c.Builder.Build(ctx, board); err != nil {
			c.Log.ErrorContext(ctx, "could not build a board anew", "err", err)
		} else {
			built = 1
		}
	}
	healed, err := c.heal(ctx, repairs)
	return built + int64(len(healed)), err
}
