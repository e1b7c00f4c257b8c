package leaderboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/store"
)

// ErrBusy means that too many pages are being read from Postgres. The request may be repeated later.
var ErrBusy = errors.New("too many boards are being read")

// ReaderConfig configures a Reader. Zero values mean the defaults.
type ReaderConfig struct {
	// RedisTimeout bounds a question to Redis, after which Postgres answers. Default 500 ms. The client must have
	// ContextTimeoutEnabled, or its own timeouts count.
	RedisTimeout time.Duration
	// PostgresReads bounds how many reads of Postgres run at a time. Deep pages and old spans cost as much as the board is
	// long, and everything else needs the pool too. Default 3.
	PostgresReads int
	// PostgresWait bounds the wait for one of them, after which the answer is ErrBusy. Default 2 s.
	PostgresWait time.Duration
	// Languages are the keys that have boards; only they are shown as somebody's top language. Default languages.Keys.
	Languages []string
	// MissingFunc is called when a kept board is not whole though Postgres has places for it, from the request: it must only
	// note that the board wants building.
	MissingFunc func(Board)
	Log         *slog.Logger // default: none
}

const (
	defaultRedisTimeout  = 500 * time.Millisecond
	defaultPostgresReads = 3
	defaultPostgresWait  = 2 * time.Second
	// breakerPause is how long Redis is left alone after it failed, so that a hung Redis does not cost every request its
	// timeout.
	breakerPause = 2 * time.Second
)

func (c ReaderConfig) withDefaults() ReaderConfig {
	if c.RedisTimeout <= 0 {
		c.RedisTimeout = defaultRedisTimeout
	}
	if c.PostgresReads <= 0 {
		c.PostgresReads = defaultPostgresReads
	}
	if c.PostgresWait <= 0 {
		c.PostgresWait = defaultPostgresWait
	}
	if c.Languages == nil {
		c.Languages = languages.Keys()
	}
	if c.MissingFunc == nil {
		c.MissingFunc = func(Board) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Reader reads pages of boards: from Redis, else from Postgres. It is safe for concurrent use.
type Reader struct {
	live    live
	truth   truth
	reads   *store.Turns // of Postgres
	breaker *gobreaker.CircuitBreaker[struct{}]
	known   *known // ranks on the boards of the span before
	cfg     ReaderConfig
}

// NewReader makes a Reader.
func NewReader(pool *pgxpool.Pool, rdb redis.UniversalClient, cfg ReaderConfig) *Reader {
	cfg = cfg.withDefaults()
	return &Reader{
		live: live{rdb}, truth: truth{pool: pool, langs: cfg.Languages}, reads: store.NewTurns(cfg.PostgresReads, cfg.PostgresWait),
		breaker: newBreaker(), known: &known{}, cfg: cfg,
	}
}

// errAbandoned marks a failure that is not Redis's: the request was given up while it waited.
var errAbandoned = errors.New("the request was given up")

// newBreaker gives Redis up at the first question that it did not answer, which took the whole timeout. Then one request at
// a time may try again.
func newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "boards",
		MaxRequests:  1,
		Timeout:      breakerPause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures > 0 },
		IsSuccessful: func(err error) bool { return err == nil || answered(err) || errors.Is(err, errAnswer) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errAbandoned) },
	})
}

type pageKind string

// The kinds of page, by the names that page.lua knows.
const (
	pageFirst  pageKind = "first"
	pageAfter  pageKind = "after"
	pageAround pageKind = "around"
)

// request is a Query that was checked.
type request struct {
	kind  pageKind
	limit int
	after place     // top for the first page
	me    uuid.UUID // uuid.Nil for nobody
}

func (q Query) request() (request, error) {
	r := request{kind: pageFirst, limit: max(1, min(q.Limit, MaxLimit)), after: top, me: q.Me}
	if q.Around != uuid.Nil {
		r.kind, r.me = pageAround, q.Around
		return r, nil
	}
	if q.Cursor == "" {
		return r, nil
	}
	var err error
	r.kind = pageAfter
	r.after, err = parseCursor(q.Cursor)
	return r, err
}

// Page reads a part of a board as it is at now. The error is ErrBadCursor, ErrBusy, or that of Postgres when it was needed.
func (r *Reader) Page(ctx context.Context, now time.Time, b Board, q Query) (Page, error) {
	req, err := q.request()
	if err != nil {
		return Page{}, err
	}
	v := visit{Reader: r, now: now}
	s, err := v.slice(ctx, b, req)
	if err != nil {
		return Page{}, err
	}
	if s.me != nil {
		s.me.user = req.me
	}
	p := s.page(b, now)
	if err := v.setDeltas(ctx, b, &p); err != nil {
		return Page{}, err
	}
	return p, nil
}

// visit is one request's use of a Reader.
type visit struct {
	*Reader
	now    time.Time
	failed bool  // Redis failed: it is not asked a second time
	before stand // of the board of the span before, when it was read with the page
}

func (v *visit) slice(ctx context.Context, b Board, req request) (s *slice, err error) {
	asked := isKept(b.Span, v.now) && v.ask(ctx, b, func(ctx context.Context) error {
		s, err = v.livePage(ctx, b, req)
		return err
	})
	if asked && s != nil {
		return s, nil
	}
	err = v.fromPostgres(ctx, func(ctx context.Context) error {
		s, err = v.truth.page(ctx, v.now, b, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if asked && (len(s.rows) > 0 || s.me != nil) {
		v.cfg.MissingFunc(b)
	}
	return s, nil
}

// livePage reads a page from Redis, together with what the deltas need if Redis has it.
func (v *visit) livePage(ctx context.Context, b Board, req request) (s *slice, err error) {
	before, ok := b.Previous()
	if !ok || !isPublished(before.Span, v.now) {
		return v.live.page(ctx, b, req)
	}
	s, v.before, err = v.live.pageBeside(ctx, b, req, before)
	return s, err
}

// ask asks Redis, if it is worth asking, and says whether it answered. Whatever goes wrong is for Postgres to make good, so
// it is only logged.
func (v *visit) ask(ctx context.Context, b Board, question func(ctx context.Context) error) (answered bool) {
	if v.failed {
		return false
	}
	_, err := v.breaker.Execute(func() (struct{}, error) {
		tctx, cancel := context.WithTimeout(ctx, v.cfg.RedisTimeout)
		defer cancel()
		err := question(tctx)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errAbandoned, err)
		}
		return struct{}{}, err
	})
	v.failed = err != nil
	if err != nil && !errors.Is(err, gobreaker.ErrOpenState) && !errors.Is(err, gobreaker.ErrTooManyRequests) &&
		!errors.Is(err, errAbandoned) {
		v.cfg.Log.WarnContext(ctx, "could not read a board from Redis", "board", b.tag(), "err", err)
	}
	return err == nil
}

// fromPostgres reads when it is this read's turn.
func (r *Reader) fromPostgres(ctx context.Context, read func(ctx context.Context) error) error {
	return r.reads.Do(ctx, ErrBusy, func() error { return read(ctx) })
}

// setDeltas compares the entries of a page with the span before.
func (v *visit) setDeltas(ctx context.Context, b Board, p *Page) error {
	before, ok := b.Previous()
	if !ok {
		return nil
	}
	entries := make([]*Entry, 0, len(p.Entries)+1)
	for i := range p.Entries {
		entries = append(entries, &p.Entries[i])
	}
	if p.Me != nil {
		entries = append(entries, p.Me)
	}
	if len(entries) == 0 {
		return nil
	}
	users := make([]uuid.UUID, len(entries))
	for i, e := range entries {
		users[i] = e.UserID
	}
	ranks, err := v.ranks(ctx, before, users)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if rank := ranks[e.UserID]; rank > 0 {
			delta := rank - e.Rank
			e.Delta = &delta
		}
	}
	return nil
}

// ranks are those of the users on the board of the span before; who has no place has rank 0, or none. Nobody may write to
// them.
func (v *visit) ranks(ctx context.Context, b Board, users []uuid.UUID) (ranks map[uuid.UUID]int64, err error) {
	if v.before != (stand{}) {
		if ranks = v.known.get(b, v.before, users); ranks != nil {
			return ranks, nil
		}
	}
	var of stand
	asked := isPublished(b.Span, v.now) && v.ask(ctx, b, func(ctx context.Context) error {
		ranks, of, err = v.live.ranks(ctx, b, users)
		return err
	})
	if asked && ranks != nil {
		v.known.put(b, of, users, ranks)
		return ranks, nil
	}
	err = v.fromPostgres(ctx, func(ctx context.Context) error {
		ranks, err = v.truth.ranks(ctx, b, users)
		return err
	})
	if err != nil {
		return nil, err
	}
	if asked && len(ranks) > 0 && isKept(b.Span, v.now) {
		v.cfg.MissingFunc(b)
	}
	return ranks, nil
}
