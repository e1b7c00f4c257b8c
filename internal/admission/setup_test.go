package admission

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// home is the address that most requests of the tests come from.
var home = netip.MustParseAddr("192.0.2.7")

// bundle is an Admitter on real servers, and what its tests look at.
type bundle struct {
	*Admitter
	db     *countingDB
	rdb    redis.UniversalClient
	trips  *atomic.Int64 // requests sent to Redis
	clock  *clock.Manual
	seen   *recorder
	log    *lockedBuffer
	config Config
}

// option changes what an Admitter is made of.
type option func(t *testing.T, cfg *Config, d *Deps)

func setup(t *testing.T, opts ...option) *bundle {
	t.Helper()
	b := &bundle{
		trips:  new(atomic.Int64),
		clock:  clock.NewManual(time.Unix(1_800_000_000, 0)),
		seen:   &recorder{},
		log:    &lockedBuffer{},
		config: DefaultConfig(),
	}
	d := Deps{Clock: b.clock, Observer: b.seen, Log: slog.New(slog.NewTextHandler(b.log, nil))}
	for _, o := range opts {
		o(t, &b.config, &d)
	}
	if d.Redis == nil {
		d.Redis = mustRedis(t, testenv.RedisURL(t), b.trips)
	}
	if d.DB == nil {
		d.DB = testenv.Postgres(t)
	}
	b.db, b.rdb = &countingDB{DBTX: d.DB}, d.Redis
	d.DB = b.db
	d.Modes = privacy.NewCache(d.Redis, b.clock, 0)
	d.Seen = lastseen.New(b.db, d.Redis, b.clock)
	var err error
	b.Admitter, err = New(b.config, d)
	require.NoError(t, err)
	return b
}

// mustRedis is a client that keeps deadlines and counts what it sends: a pipeline is one write to the connection.
func mustRedis(t *testing.T, url string, trips *atomic.Int64) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	o.ContextTimeoutEnabled = true
	o.Dialer = countingDialer(trips)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func countingDialer(trips *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countingConn{Conn: c, trips: trips}, nil
	}
}

type countingConn struct {
	net.Conn
	trips *atomic.Int64
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.trips.Add(1)
	return c.Conn.Write(b)
}

// countingDB counts the questions to Postgres.
type countingDB struct {
	dbsqlc.DBTX
	asked atomic.Int64
}

func (c *countingDB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.asked.Add(1)
	return c.DBTX.QueryRow(ctx, sql, args...)
}

// brokenDB is a Postgres that answers every question with an error.
type brokenDB struct{ dbsqlc.DBTX }

func (brokenDB) QueryRow(context.Context, string, ...any) pgx.Row { return brokenRow{} }

type brokenRow struct{}

func (brokenRow) Scan(...any) error { return &pgconn.PgError{Code: "57P01", Message: "gone"} }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// recorder is an Observer that remembers.
type recorder struct {
	mu         sync.Mutex
	admissions []string
	failures   []Step
	breaker    []bool
}

func (r *recorder) Admission(s Scope, c Code, cached bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	how := "asked"
	if cached {
		how = "cached"
	}
	r.admissions = append(r.admissions, string(s)+" "+string(c)+" "+how)
}

func (r *recorder) RedisFailure(s Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, s)
}

func (r *recorder) Breaker(open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breaker = append(r.breaker, open)
}

type user struct {
	id    uuid.UUID
	token string
}

// otherSecret is a well-formed token of the user with another secret.
func (u user) otherSecret() string { return NewToken(u.id) }

func (b *bundle) mustUser(t *testing.T, mode activity.Mode) user {
	t.Helper()
	u := user{id: uuid.New()}
	u.token = NewToken(u.id)
	h := HashToken(u.token)
	require.NoError(t, dbsqlc.New().UserInsert(t.Context(), b.db.DBTX, dbsqlc.UserInsertParams{
		ID: u.id, Handle: u.id.String(), TokenHash: h[:], Privacy: mode, Zone: "UTC",
	}))
	return u
}

// ask is Admit of a request from home.
func (b *bundle) ask(t *testing.T, token string, scope Scope) (Grant, error) {
	t.Helper()
	return b.Admit(t.Context(), Request{Token: token, Scope: scope, Addr: home})
}

func (b *bundle) mustAdmit(t *testing.T, u user) Grant {
	t.Helper()
	g, err := b.ask(t, u.token, ScopeIngest)
	require.NoError(t, err)
	require.Equal(t, u.id, g.UserID)
	return g
}

func requireCode(t *testing.T, err error, want Code) { t.Helper(); _ = mustRefusal(t, err, want) }

// mustRefusal is err as the refusal that it must be.
func mustRefusal(t *testing.T, err error, want Code) (refusal *Error) {
	t.Helper()
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, want, refusal.Code, "%v", err)
	return refusal
}
