package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Deps are what an Admitter works with. Observer may be nil, and Seen where nobody wants to know who was seen.
type Deps struct {
	DB       dbsqlc.DBTX
	Redis    redis.UniversalClient // must have ContextTimeoutEnabled
	Modes    *privacy.Cache
	Seen     *lastseen.Seen
	Clock    clock.Clock
	Log      *slog.Logger
	Observer Observer
}

// Admitter decides which requests may go on. It is safe for concurrent use.
type Admitter struct {
	deps       Deps
	cfg        Config
	shards     redisconn.Shards
	breaker    *gobreaker.CircuitBreaker[reply]
	localUsers localLimiter
	localAddrs localLimiter // apart from the users', so that no number of addresses makes a user's limit forgotten
	// limited are the addresses that were over their limit of failures when this process last counted one, with what
	// they were told. It saves asking, and decides nothing that Redis would not.
	limited *recent[addrLimit]
}

// Request is what is known of a request when it arrives.
type Request struct {
	Token string // of the Authorization header, without "Bearer "; may be empty
	Scope Scope
	Addr  netip.Addr // of the client
}

// Grant is a request that may go on. UserID is the zero UUID for an anonymous one.
type Grant struct {
	UserID uuid.UUID
	// Mode is what is known of the user's mode without asking for it, or "". It may be stale: it may be used to strip,
	// and for nothing else.
	Mode  activity.Mode
	Limit LimitState
}

// New is an Admitter.
func New(cfg Config, d Deps) (*Admitter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check admission configuration: %w", err)
	}
	if !honoursDeadlines(d.Redis) {
		return nil, errors.New("admission needs a Redis client with ContextTimeoutEnabled: without it no deadline holds")
	}
	if d.Observer == nil {
		d.Observer = noObserver{}
	}
	a := &Admitter{
		deps:       d,
		cfg:        cfg,
		shards:     redisconn.ShardsOf(d.Redis),
		localUsers: newLocalLimiter(cfg.LocalKeys),
		localAddrs: newLocalLimiter(cfg.LocalKeys),
		limited:    newRecent[addrLimit](cfg.LocalKeys),
	}
	a.breaker = a.newBreaker()
	return a, nil
}

// Admit authenticates a request and counts it against its user's limit. A refusal is an *Error.
func (a *Admitter) Admit(ctx context.Context, req Request) (Grant, error) {
	g, cached, err := a.admit(ctx, req)
	a.deps.Observer.Admission(req.Scope, codeOf(err), cached)
	return g, err
}

// AdmitAnonymous counts a request without a token against its address' limit. A refusal is an *Error.
func (a *Admitter) AdmitAnonymous(ctx context.Context, scope Scope, addr netip.Addr) (Grant, error) {
	g, err := a.admitAnonymous(ctx, scope, addr)
	a.deps.Observer.Admission(scope, codeOf(err), true)
	return g, err
}

func (a *Admitter) admit(ctx context.Context, req Request) (g Grant, cached bool, err error) {
	perHour, err := a.perHour(req.Scope)
	if err != nil {
		return Grant{}, false, err
	}
	id, err := ParseToken(req.Token)
	if err != nil {
		return Grant{}, true, a.refuse(ctx, req.Addr, errUnauthorized())
	}
	hash := HashToken(req.Token)
	r := a.askUser(ctx, id, hash, req.Scope, perHour)
	if cached = hash.equal(r.hash); !cached {
		// Without Redis no token is cached, so that this would turn away everybody behind the address.
		if l, ok := a.stillLimited(req.Addr); ok && r.known {
			return Grant{}, true, errRateLimited(l)
		}
		if err := a.authenticate(ctx, id, hash, &r); err != nil {
			return Grant{}, false, a.refuse(ctx, req.Addr, err)
		}
	}
	if !r.limitKnown {
		r.limit = a.limitLocally(a.localUsers, string(req.Scope)+":"+id.String(), perHour)
	}
	if r.limit.Limited {
		return Grant{}, cached, errRateLimited(r.limit)
	}
	return Grant{UserID: id, Mode: r.mode.Mode, Limit: r.limit}, cached, nil
}

func (a *Admitter) admitAnonymous(ctx context.Context, scope Scope, addr netip.Addr) (Grant, error) {
	perHour, err := a.perHour(scope)
	if err != nil {
		return Grant{}, err
	}
	l := a.limitAddr(ctx, scope, addr, perHour, a.cfg.RedisTimeout)
	if l.Limited {
		return Grant{}, errRateLimited(l)
	}
	return Grant{Limit: l}, nil
}

// authenticate asks Postgres, which alone can refuse a well-formed token, and caches what it said of a good one.
func (a *Admitter) authenticate(ctx context.Context, id uuid.UUID, hash Hash, r *reply) *Error {
	readAt := a.deps.Clock.Now()
	user, err := a.readUser(ctx, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errForbidden()
	case err != nil:
		return errUnavailable(fmt.Errorf("read user: %w", err))
	case !hash.equal(user.TokenHash):
		return errUnauthorized()
	}
	read := privacy.Entry{Version: user.Version, Mode: user.Privacy}
	if r.mode.Mode == "" || r.mode.Version < read.Version {
		r.mode = read
	}
	a.fill(ctx, id, hash, read, readAt)
	return nil
}

func (a *Admitter) readUser(ctx context.Context, id uuid.UUID) (dbsqlc.UserGetAuthRow, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.PostgresTimeout)
	defer cancel()
	return dbsqlc.New().UserGetAuth(ctx, a.deps.DB, id)
}

// refuse counts a failed authentication against the address. The one that is over the limit is told to wait, whatever
// else it would have been told.
func (a *Admitter) refuse(ctx context.Context, addr netip.Addr, refusal *Error) error {
	if refusal.Code == CodeUnavailable {
		return refusal
	}
	l := a.limitAddr(ctx, scopeFailedAuth, addr, a.cfg.FailedAuthPerHour, a.afterTimeout())
	if l.Limited {
		a.limited.set(addrGroup(addr), addrLimit{state: l, until: a.deps.Clock.Now().Add(l.RetryAfter)})
		return errRateLimited(l)
	}
	return refusal
}

// addrLimit is what an address that is over its limit was told, and how long that holds.
type addrLimit struct {
	state LimitState
	until time.Time
}

// stillLimited says whether the next failure of an address would be over its limit, as far as this process knows, and
// what it is told then.
func (a *Admitter) stillLimited(addr netip.Addr) (LimitState, bool) {
	l, ok := a.limited.get(addrGroup(addr))
	if !ok {
		return LimitState{}, false
	}
	left := l.until.Sub(a.deps.Clock.Now())
	return l.state.limited(left), left > 0
}

func (a *Admitter) perHour(scope Scope) (int, error) {
	perHour, ok := a.cfg.PerHour[scope]
	if !ok {
		return 0, fmt.Errorf("admit: no limit is configured for scope %q", scope)
	}
	return perHour, nil
}

func (a *Admitter) limitLocally(l localLimiter, key string, perHour int) LimitState {
	if perHour == 0 {
		return LimitState{}
	}
	return l.allow(key, perHour, a.deps.Clock.Now())
}

// A request asks Redis for its user first, and at most once more afterwards: to fill, or to count a failure. The two
// share RedisTimeout.
func (a *Admitter) askTimeout() time.Duration   { return a.cfg.RedisTimeout * 4 / 5 }
func (a *Admitter) afterTimeout() time.Duration { return a.cfg.RedisTimeout / 5 }

// codeOf is the code of a refusal, and "" for none.
func codeOf(err error) Code {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	if err != nil {
		return codeInternal
	}
	return ""
}
