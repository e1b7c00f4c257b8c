package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/aggregate"
)

type serveCmd struct {
	storeFlags
	apiFlags
	loopFlags
	Aggregate bool `help:"Run the aggregator and the publisher in this process too. Turn it off where workers do that." default:"true" negatable:"" env:"COMMMA_AGGREGATE"`
}

// Validate implements kong's check of a parsed command.
func (c *serveCmd) Validate() error { return errors.Join(c.apiFlags.check(), c.loopFlags.check()) }

// Run implements the command.
func (c *serveCmd) Run(ctx context.Context, p *program) error {
	b, err := openBackend(ctx, p, c.storeFlags, c.options(c.loopFlags))
	if err != nil {
		return err
	}
	defer b.Close()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.log.InfoContext(ctx, "serving", "address", listener.Addr().String(), "aggregate", c.Aggregate)
	var loops *loopFlags
	if c.Aggregate {
		loops = &c.loopFlags
	}
	return b.serve(ctx, listener, c.apiFlags, loops)
}

// serve runs the API on listener, and the loops unless they are nil, until ctx ends or one of them fails.
//
// The order of the end: HTTP stops listening and drains, so that no request is cut off; then the writer stores what was
// taken in and stops, for a request waits for it, and the counters that requests changed are flushed; the loops end on
// their own meanwhile, since a cycle that is cut off leaves no trace. When no request is left, the views and visits that they
// gathered in Redis are flushed. Both flushes are bounded in time. The caller closes Redis and Postgres after that.
func (b *backend) serve(ctx context.Context, listener net.Listener, f apiFlags, loops *loopFlags) error {
	server, err := b.api(f)
	if err != nil {
		_ = listener.Close()
		return err
	}
	if err := aggregate.DeclareAge(ctx, b.DB, f.MaxEventAge); err != nil {
		_ = listener.Close()
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	writerCtx, stopWriter := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error { return b.Events.Run(writerCtx) })
	// A request may change a counter until the last one has ended: they are flushed after that.
	g.Go(func() error { return b.Counters.Run(writerCtx) })
	g.Go(func() error {
		defer stopWriter()
		return server.Serve(gctx, listener)
	})
	g.Go(func() error {
		b.declareAge(gctx, f.MaxEventAge)
		return nil
	})
	if loops == nil {
		g.Go(func() error {
			b.ringLoop(gctx)
			return nil
		})
		return g.Wait()
	}
	g.Go(func() error { return b.loops(gctx, *loops) })
	err = g.Wait()
	b.flushLast(ctx)
	return err
}
