package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/clock"
)

type workerCmd struct {
	storeFlags
	loopFlags
	Once          bool   `help:"Run one cycle, print its statistics as one line of JSON, and end."`
	Now           string `help:"With --once: decide which sessions have ended as if it were this time, given as 2026-11-29T12:00:00Z or relative, as +20m." placeholder:"TIME"`
	MetricsListen string `help:"Address to serve /metrics on; empty for none." env:"COMMMA_METRICS_LISTEN" placeholder:"ADDRESS"`
}

// Validate implements kong's check of a parsed command.
func (c *workerCmd) Validate() error {
	if c.Now != "" && !c.Once {
		return errors.New("--now needs --once")
	}
	return c.loopFlags.check()
}

// Run implements the command.
func (c *workerCmd) Run(ctx context.Context, p *program) error {
	now, err := parseNow(c.Now, p.clock)
	if err != nil {
		return err
	}
	b, err := openBackend(ctx, p, c.storeFlags, app.Options{Parallel: c.Parallel})
	if err != nil {
		return err
	}
	defer b.Close()
	if c.Once {
		stats, err := b.once(ctx, now)
		if err != nil {
			return err
		}
		return json.NewEncoder(p.stdout).Encode(stats)
	}
	p.log.InfoContext(ctx, "working", "aggregate_every", c.AggregateEvery, "publish_every", c.PublishEvery)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.loops(gctx, c.loopFlags) })
	g.Go(func() error { return b.Counters.Run(gctx) })
	if c.MetricsListen != "" {
		g.Go(func() error { return b.serveMetrics(gctx, c.MetricsListen) })
	}
	err = g.Wait()
	b.flushLast(ctx)
	return err
}

// parseNow reads an instant, absolute or relative to the present; nothing is nil.
func parseNow(s string, c clock.Clock) (*time.Time, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // no instant is not an error
	}
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		d, err := time.ParseDuration(s)
		if err != nil {
			return nil, fmt.Errorf("--now: %q is no duration such as +20m", s)
		}
		t := c.Now().Add(d)
		return &t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return nil, fmt.Errorf("--now: %q is neither a time such as 2026-11-29T12:00:00Z nor relative such as +20m", s)
	}
	return &t, nil
}

// metricsHeaderTimeout bounds how long a scraper may take to send its request.
const metricsHeaderTimeout = 5 * time.Second

// serveMetrics serves a worker's metrics until ctx ends.
func (b *backend) serveMetrics(ctx context.Context, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.registry, promhttp.HandlerOpts{}))
	// net/http would write to standard error of single connections, with addresses.
	server := &http.Server{Handler: mux, ReadHeaderTimeout: metricsHeaderTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
