package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/languages"
)

// Deps is what the server works with. All of it is needed. The interfaces are declared here, beside the handlers that use
// them, and are as small as that use.
type Deps struct {
	Admission   Admitter
	Events      EventStore
	Accounts    Accounts
	Boards      Boards
	Circles     Circles
	Sessions    Sessions
	Engaged     Engagement
	Following   Following
	Groups      Groups
	Memberships Memberships
	Profiles    Profiles
	Views       Views
	ViewDays    ViewDays
	LastSeen    LastSeen
	Today       Today
	Exports     Exporter
	Recaps      Recaps
	Links       MailLinks
	Postgres    Pinger
	Redis       RedisProbe
	Languages   *languages.Resolver
	Metrics     MetricsRegistry
	Clock       clock.Clock
	Logger      *slog.Logger
}

// MetricsRegistry takes the server's own metrics and shows everybody's at /metrics: a *prometheus.Registry.
type MetricsRegistry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Config are the server's settings. Zero values mean the defaults.
type Config struct {
	// Limits of an ingest request; default ingest.DefaultLimits.
	Limits ingest.Limits
	// TrustedProxies may say in X-Forwarded-For whom they speak for. Default: nobody, a request's address is that of
	// its connection.
	TrustedProxies []netip.Prefix
	// CORSOrigins are the origins whose pages may read answers, as ValidateOrigin wants them. Default: none.
	CORSOrigins []string
	// RequestTimeout bounds the work on one request; default 10 s. Clients give up after 15 s.
	RequestTimeout time.Duration
	// StreamTimeout bounds the work on one answer that is streamed, which may take long; default 15 min.
	StreamTimeout time.Duration
	// IngestTimeout bounds the work on one upload, the reading of its body included; default 8 s.
	IngestTimeout time.Duration
	// DrainTimeout is how long requests may take to end after Serve was told to stop; default 12 s.
	DrainTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Limits == (ingest.Limits{}) {
		c.Limits = ingest.DefaultLimits()
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 10 * time.Second
	}
	if c.StreamTimeout <= 0 {
		c.StreamTimeout = 15 * time.Minute
	}
	if c.IngestTimeout <= 0 {
		c.IngestTimeout = 8 * time.Second
	}
	if c.DrainTimeout <= 0 {
		c.DrainTimeout = 12 * time.Second
	}
	return c
}

func (c *Config) validate() error {
	for _, origin := range c.CORSOrigins {
		if err := ValidateOrigin(origin); err != nil {
			return err
		}
	}
	return nil
}

// What a context cannot bound: waiting for the client.
const (
	readHeaderTimeout = 5 * time.Second
	// readGrace is how much longer a body may take to arrive than the request's deadline. It must be positive: net/http
	// takes the end of its read timeout for the end of the client and cancels the request.
	readGrace      = 2 * time.Second
	writeTimeout   = 30 * time.Second // leaves time for a slow reader of a large answer
	idleTimeout    = 120 * time.Second
	maxHeaderBytes = 32 << 10
)

// Server answers HTTP requests. It is safe for concurrent use.
type Server struct {
	deps    Deps
	cfg     Config
	echo    *echo.Echo
	routes  map[string]bool // path patterns: the only values of the route label
	metrics *metrics
}

// New makes a server and registers its metrics. It fails when a dependency is missing or the metrics are registered
// already.
func New(d Deps, cfg Config) (*Server, error) {
	if err := errors.Join(d.validate(), cfg.validate()); err != nil {
		return nil, fmt.Errorf("make HTTP server: %w", err)
	}
	m, err := newMetrics(d.Metrics)
	if err != nil {
		return nil, fmt.Errorf("make HTTP server: %w", err)
	}
	s := &Server{deps: d, cfg: cfg.withDefaults(), echo: echo.New(), routes: make(map[string]bool), metrics: m}
	e := s.echo
	e.Logger.SetOutput(io.Discard)     // Echo's own logger would print errors in full
	e.HTTPErrorHandler = s.answerError // for what escapes observe
	e.IPExtractor = clientAddress(s.cfg.TrustedProxies)
	compressed, err := compress()
	if err != nil {
		return nil, fmt.Errorf("make HTTP server: %w", err)
	}
	e.Use(s.deadline, s.observe)
	if len(cfg.CORSOrigins) > 0 {
		e.Use(cors(cfg.CORSOrigins))
	}
	e.Use(compressed)
	api.RegisterHandlers(e, &handlers{Deps: s.deps, cfg: s.cfg, metricsHandler: metricsHandler(d.Metrics)})
	// All routes come from the contract, so this is the complete list.
	for _, r := range e.Routes() {
		s.routes[r.Path] = true
	}
	return s, nil
}

func (d *Deps) validate() error {
	for name, missing := range map[string]bool{
		"Admission": d.Admission == nil, "Events": d.Events == nil, "Accounts": d.Accounts == nil,
		"Boards": d.Boards == nil, "Circles": d.Circles == nil, "Following": d.Following == nil, "Groups": d.Groups == nil,
		"Memberships": d.Memberships == nil, "Sessions": d.Sessions == nil, "Engaged": d.Engaged == nil, "Profiles": d.Profiles == nil,
		"Views": d.Views == nil, "ViewDays": d.ViewDays == nil, "LastSeen": d.LastSeen == nil, "Today": d.Today == nil, "Exports": d.Exports == nil,
		"Recaps": d.Recaps == nil, "Links": d.Links == nil,
		"Postgres": d.Postgres == nil, "Redis": d.Redis == nil,
		"Languages": d.Languages == nil, "Metrics": d.Metrics == nil, "Clock": d.Clock == nil, "Logger": d.Logger == nil,
	} {
		if missing {
			return fmt.Errorf("dependency %s is missing", name)
		}
	}
	return nil
}

// ServeHTTP implements http.Handler. HEAD is answered as GET is, whose body net/http does not send for it: Echo has routes
// for methods by name only.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		get := *r // net/http keeps the request it made, by which it knows that there is to be no body
		get.Method = http.MethodGet
		r = &get
	}
	s.echo.ServeHTTP(w, r)
}

// Serve answers requests on l until ctx ends, then stops listening, lets the requests under way end, and returns when
// the last one has. After the drain timeout their contexts are cancelled and their connections closed, which is
// reported as an error. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// Requests outlive ctx: being told to stop must not cancel what is under way.
	requests, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	var underWay sync.RWMutex
	srv := &http.Server{
		Handler:           counted(s, &underWay),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       s.cfg.RequestTimeout + readGrace,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          serverErrorLog(s.deps.Logger),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()

	select {
	case err := <-served: // it never returns nil, and nobody asked it to stop
		return errors.Join(fmt.Errorf("serve HTTP: %w", err), s.drain(ctx, srv, cancelRequests, &underWay))
	case <-ctx.Done():
	}
	err := s.drain(ctx, srv, cancelRequests, &underWay)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve HTTP: %w", serveErr))
	}
	return err
}

// drain waits for the requests under way: first politely, then after cancelling them. The second wait ends because
// everything that a handler waits for watches its context or its connection.
func (s *Server) drain(ctx context.Context, srv *http.Server, cancelRequests func(), underWay *sync.RWMutex) error {
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	err := srv.Shutdown(stop)
	if err != nil {
		err = fmt.Errorf("drain HTTP requests: %w", err)
		cancelRequests()
		_ = srv.Close() // what is left was reported above
	}
	underWay.Lock() // for good
	return err
}

// counted lets Serve wait for handlers, which http.Server.Close does not: each holds the lock shared, and Serve takes it
// alone. Who comes after that has lost the connection already.
func counted(h http.Handler, underWay *sync.RWMutex) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !underWay.TryRLock() {
			return
		}
		defer underWay.RUnlock()
		h.ServeHTTP(w, r)
	})
}
