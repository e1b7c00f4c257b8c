package leaderboard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// ReaderConfig configures a Reader. Zero values mean the defaults.
type ReaderConfig struct {
	// RedisTimeout bounds a question to Redis, after which Postgres answers. Default 500 ms. The client must have
	// ContextTimeoutEnabled, or its own timeouts count.
	RedisTimeout time.Duration
	// MissingFunc is called when a kept board is not whole, from the request: it must only note that it wants building.
	MissingFunc func(Board)
	Log         *slog.Logger // default: none
}

const (
	defaultRedisTimeout = 500 * time.Millisecond
	// After this many failures in a row Redis is left alone for a moment, so that a hung Redis does not cost every
	// request its timeout.
	breakerFailures = 5
	breakerPause    = 2 * time.Second
)

// Reader reads pages of boards: from Redis, else from Postgres. It is safe for concurrent use.
type Reader struct {
	live    live
	truth   truth
	breaker *gobreaker.CircuitBreaker[struct{}]
	cfg     ReaderConfig
}

// NewReader makes a Reader.
func NewReader(pool *pgxpool.Pool, rdb redis.UniversalClient, cfg ReaderConfig) *Reader {
	if cfg.RedisTimeout <= 0 {
		cfg.RedisTimeout = defaultRedisTimeout
	}
	if cfg.MissingFunc == nil {
		cfg.MissingFunc = func(Board) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reader{live: live{rdb}, truth: truth{pool}, cfg: cfg, breaker: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "boards",
		Timeout:     breakerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		// A client that went away says nothing about Redis.
		IsSuccessful: func(err error) bool { return err == nil || errors.Is(err, context.Canceled) },
	})}
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

// Page reads a part of a board as it is at now. The error is ErrBadCursor, or that of Postgres when it was needed.
func (r *Reader) Page(ctx context.Context, now time.Time, b Board, q Query) (Page, error) {
	req, err := q.request()
	if err != nil {
		return Page{}, err
	}
	s, err := r.slice(ctx, now, b, req)
	if err != nil {
		return Page{}, err
	}
	if s.me != nil {
		s.me.user = req.me
	}
	p := s.page(b, now)
	if err := r.setDeltas(ctx, now, b, &p); err != nil {
		return Page{}, err
	}
	return p, nil
}

func (r *Reader) slice(ctx context.Context, now time.Time, b Board, req request) (*slice, error) {
	var s *slice
	if isKept(b.Span, now) && r.ask(ctx, b, func(ctx context.Context) (whole bool, err error) {
		s, err = r.live.page(ctx, b, req)
		return s != nil, err
	}) {
		return s, nil
	}
	return r.truth.page(ctx, now, b, req)
}

// ask asks Redis, if it is worth asking, and says whether the answer is one. Whatever goes wrong is for Postgres to make
// good, so it is only logged.
func (r *Reader) ask(ctx context.Context, b Board, question func(ctx context.Context) (whole bool, err error)) bool {
	whole := false
	_, err := r.breaker.Execute(func() (struct{}, error) {
		tctx, cancel := context.WithTimeout(ctx, r.cfg.RedisTimeout)
		defer cancel()
		var err error
		whole, err = question(tctx)
		return struct{}{}, err
	})
	switch {
	case err == nil && !whole:
		r.cfg.MissingFunc(b)
	case err != nil && !errors.Is(err, gobreaker.ErrOpenState) && !errors.Is(err, gobreaker.ErrTooManyRequests):
		r.cfg.Log.WarnContext(ctx, "could not read a board from Redis", "board", b.tag(), "err", err)
	}
	return err == nil && whole
}

// setDeltas compares the entries of a page with the span before.
func (r *Reader) setDeltas(ctx context.Context, now time.Time, b Board, p *Page) error {
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
	ranks, err := r.ranks(ctx, now, before, users)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if rank, ok := ranks[e.UserID]; ok {
			delta := rank - e.Rank
			e.Delta = &delta
		}
	}
	return nil
}

func (r *Reader) ranks(ctx context.Context, now time.Time, b Board, users []uuid.UUID) (map[uuid.UUID]int64, error) {
	var ranks map[uuid.UUID]int64
	if isKept(b.Span, now) && r.ask(ctx, b, func(ctx context.Context) (whole bool, err error) {
		ranks, err = r.live.ranks(ctx, b, users)
		return ranks != nil, err
	}) {
		return ranks, nil
	}
	return r.truth.ranks(ctx, b, users)
}
