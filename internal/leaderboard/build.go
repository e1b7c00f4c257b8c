package leaderboard

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store/dbsqlc"
)

var (
	// ErrBuilding means that somebody else is building the board.
	ErrBuilding = errors.New("another process is building the board")
	// ErrBuildLost means that a build was given up: its token expired, Redis lost a part of what was built, or it did not
	// start in time.
	ErrBuildLost = errors.New("the build was lost")
)

const (
	// tokenLife bounds how long a builder may be silent. It is renewed with each chunk.
	tokenLife = 30 * time.Second
	// asideLife is longer, so that an aside key never expires under a builder that still holds its token.
	asideLife = 2 * tokenLife
	// beginWithin is how long after it was asked for a build may still start. It must be less than tokenLife, and than
	// overLife: a copy of begin that arrives while it may still start then finds the token, or the end of its build.
	beginWithin = tokenLife / 3
	// overLife is how long the end of a build is remembered.
	overLife = tokenLife
	// chunkRows are read and written at a time: what a build holds in memory, and what one script does.
	chunkRows = 500
	// discardTimeout bounds the clean-up of a build that failed, perhaps because its context ended.
	discardTimeout = 2 * time.Second
)

// Builder makes boards from totals. It is safe for concurrent use; two builds of one board exclude each other, in
// whatever processes they run.
type Builder struct {
	db     dbsqlc.DBTX
	rdb    redis.UniversalClient
	boards *Boards
	langs  []string
	log    *slog.Logger
}

// NewBuilder makes a Builder that reads from a pool. languages are the keys that have boards.
func NewBuilder(db dbsqlc.DBTX, rdb redis.UniversalClient, languages []string, log *slog.Logger) *Builder {
	return &Builder{db: db, rdb: rdb, boards: NewBoards(rdb), langs: languages, log: log}
}

// Built is a board that was made.
type Built struct {
	Generation string
	Rows       int64
}

// Build makes the board anew from totals and swaps it in; a board that is there is removed first, and reads are served
// from Postgres meanwhile. Whoever changed during the build is pending in the outbox: publish after it. The errors include
// ErrBuilding and ErrBuildLost.
func (b *Builder) Build(ctx context.Context, board Board) (Built, error) {
	w := &build{Builder: b, board: board, keys: board.keys(), generation: newGeneration()}
	w.aside = board.aside(w.generation)
	rows, err := w.run(ctx)
	if err != nil {
		return Built{}, fmt.Errorf("build board %s: %w", board.tag(), err)
	}
	b.log.DebugContext(ctx, "built board", "board", board.tag(), "rows", rows)
	return Built{Generation: w.generation, Rows: rows}, nil
}

func newGeneration() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// build is one run of Build.
type build struct {
	*Builder
	board      Board
	keys       boardKeys
	aside      asideKeys
	generation string
}

func (w *build) run(ctx context.Context) (rows int64, err error) {
	err = w.begin(ctx)
	if errors.Is(err, ErrBuilding) {
		return 0, err
	}
	if err == nil {
		rows, err = w.fill(ctx)
	}
	if err == nil {
		err = w.swap(ctx)
	}
	if err != nil {
		w.discard(ctx)
	}
	return rows, err
}

// buildKeys are the keys of the build's scripts; those that do not touch the board take the first asideCount.
func (w *build) buildKeys() []string {
	return []string{
		w.aside.scores, w.aside.members, w.keys.building, w.keys.notes, w.aside.over, w.keys.scores, w.keys.members,
	}
}

const asideCount = 5

// begin takes the token. It asks for the time by itself, of the server that has the board: it must not come late by that
// server's clock.
func (w *build) begin(ctx context.Context) error {
	now, err := nowScript.Run(ctx, w.rdb, []string{w.keys.building}).Int64()
	if err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	return w.beginBy(ctx, now+int64(beginWithin.Seconds()))
}

// beginBy takes the token unless it is later than the given second.
func (w *build) beginBy(ctx context.Context, last int64) error {
	answer, err := beginScript.Run(ctx, w.rdb, w.buildKeys(), w.generation, tokenLife.Milliseconds(), asideLife.Milliseconds(), last).Int()
	switch {
	case err != nil:
		return fmt.Errorf("begin: %w", err)
	case answer == 0:
		return ErrBuilding
	}
	return heldOn("begin", answer == 1, nil)
}

// fill walks the totals in the order of the board. They may move meanwhile: see doc.go for why that is right.
func (w *build) fill(ctx context.Context) (int64, error) {
	var total int64
	v := view{db: w.db, board: w.board, langs: w.langs}
	for from := top; ; {
		rows, err := v.below(ctx, from, chunkRows)
		if err != nil {
			return total, err
		}
		if len(rows) > 0 {
			if err := w.write(ctx, rows); err != nil {
				return total, err
			}
			from = rows[len(rows)-1].place
		}
		total += int64(len(rows))
		if len(rows) < chunkRows {
			return total, nil
		}
	}
}

func (w *build) write(ctx context.Context, rows []standing) error {
	args := make([]any, 0, 3+3*len(rows))
	args = append(args, w.generation, tokenLife.Milliseconds(), asideLife.Milliseconds())
	for i := range rows {
		r := &rows[i]
		args = append(args, memberOf(r.user), r.seconds, packMember(r.version, r.facts))
	}
	ok, err := fillScript.Run(ctx, w.rdb, w.buildKeys()[:asideCount], args...).Bool()
	return heldOn("fill", ok, err)
}

func (w *build) swap(ctx context.Context) error {
	ok, err := swapScript.Run(ctx, w.rdb, w.buildKeys(),
		w.generation, w.board.expires(), minLifetime.Milliseconds(), overLife.Milliseconds()).Bool()
	return heldOn("swap", ok, err)
}

func heldOn(step string, ok bool, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	if !ok {
		return fmt.Errorf("%s: %w", step, ErrBuildLost)
	}
	return nil
}

// discard lets the next builder start at once. When it fails, the keys expire.
func (w *build) discard(ctx context.Context) {
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	if err := discardScript.Run(dctx, w.rdb, w.buildKeys()[:asideCount], w.generation, overLife.Milliseconds()).Err(); err != nil {
		w.log.WarnContext(dctx, "could not discard a failed build: its keys expire", "board", w.board.tag(), "err", err)
	}
}

// Ensured says what EnsureKept found and did.
type Ensured struct {
	Boards int   // boards that should be there
	Built  int   // made by this call
	Busy   int   // being built by somebody else
	Failed int   // builds that were begun here, or would have been, and came to nothing
	Rows   int64 // in the built ones
}

// maxFailures is how many builds may fail before EnsureKept leaves the rest for the next time.
const maxFailures = 3

// EnsureKept builds the boards of the kept spans that Redis does not have whole: for all languages, and for each language
// with totals in the span. Call it before publishing what is pending. now replaces Redis's clock for choosing the spans, in
// tests; nil is for everybody else.
func (b *Builder) EnsureKept(ctx context.Context, now *time.Time) (Ensured, error) {
	at, err := b.boards.Present(ctx, now)
	if err != nil {
		return Ensured{}, err
	}
	boards, err := b.wanted(ctx, calendar.Kept(at))
	if err != nil {
		return Ensured{}, err
	}
	states, err := b.boards.States(ctx, boards)
	if err != nil {
		return Ensured{}, err
	}
	done := Ensured{Boards: len(boards)}
	var errs []error
	for i, s := range states {
		if s.Generation != "" {
			continue
		}
		built, err := b.Build(ctx, boards[i])
		switch {
		case err == nil:
			done.Built++
			done.Rows += built.Rows
		case errors.Is(err, ErrBuilding):
			done.Busy++
		default:
			done.Failed++
			errs = append(errs, err)
		}
		if len(errs) >= maxFailures || ctx.Err() != nil {
			break
		}
	}
	return done, errors.Join(errs...)
}

// wanted are the boards that should be in Redis while spans are kept, those of short spans first.
func (b *Builder) wanted(ctx context.Context, spans []calendar.Span) ([]Board, error) {
	boards := make([]Board, 0, len(spans))
	p := dbsqlc.LeaderboardLanguagesWithTotalsParams{Langs: b.langs}
	for _, s := range spans {
		boards = append(boards, Board{Span: s})
		p.Periods = append(p.Periods, string(s.Period))
		p.Starts = append(p.Starts, s.StartsOn)
	}
	rows, err := dbsqlc.New().LeaderboardLanguagesWithTotals(ctx, b.db, p)
	if err != nil {
		return nil, fmt.Errorf("list languages with totals: %w", err)
	}
	for _, r := range rows {
		span := calendar.Span{Period: calendar.Period(r.Period), StartsOn: r.StartsOn}
		boards = append(boards, Board{Span: span, Lang: r.Lang})
	}
	return boards, nil
}
