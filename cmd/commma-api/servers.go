package main

import (
	"context"
	"fmt"

	"github.com/commma/commma/internal/localstack"
)

type serversCmd struct{}

// Run implements the command.
func (c *serversCmd) Run(ctx context.Context, p *program) error {
	if err := localstack.Ensure(ctx, func(line string) { _, _ = fmt.Fprintln(p.stderr, line) }); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.stdout, "Postgres and Redis are installed")
	return err
}
