// Command commma-api is the whole backend: the API server, the aggregator, and the tools around them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redact"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is the program: it parses the command line, runs the command until it ends or is told to stop, and returns the
// exit code.
func run(args []string) int {
	var c cli
	parser, err := newParser(&c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "commma-api:", err)
		return 1
	}
	kctx, err := parser.Parse(args)
	parser.FatalIfErrorf(err)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal a second one ends the process at once.
	context.AfterFunc(ctx, stop)

	p := &program{stdout: os.Stdout, stderr: os.Stderr, log: newLogger(os.Stderr, c.LogFormat, c.LogLevel), clock: clock.System{}}
	kctx.BindTo(ctx, (*context.Context)(nil))
	if err := kctx.Run(p); err != nil && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		fmt.Fprintln(os.Stderr, "commma-api:", redact.Terminal(err))
		return 1
	}
	return 0
}
