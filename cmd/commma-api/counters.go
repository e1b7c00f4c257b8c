package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/engagement"
)

type countersCmd struct {
	Verify countersVerifyCmd `cmd:"" help:"Compare the counts of kudos and comments that sessions show with the kudos and comments themselves; print what was found as one line of JSON. Safe while everything runs."`
}

type countersVerifyCmd struct {
	databaseFlags
	Heal bool `help:"Correct what is found."`
}

// errMiscounted makes the exit code say what the line says.
var errMiscounted = errors.New("counts are wrong and not healed")

// Run implements the command.
func (c *countersVerifyCmd) Run(ctx context.Context, p *program) error {
	return withPool(ctx, p, c.databaseFlags, func(pool *pgxpool.Pool) error {
		step, end := newProgress(ctx, p)
		began := p.clock.Now()
		r, err := engagement.NewVerifier(pool).Verify(ctx, c.Heal, step)
		end()
		r.TookS = p.clock.Now().Sub(began).Seconds()
		if err == nil && r.Wrong > r.Healed {
			err = errMiscounted
		}
		return errors.Join(json.NewEncoder(p.stdout).Encode(r), err)
	})
}
