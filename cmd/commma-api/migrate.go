package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/store"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply the migrations that are missing."`
	Status migrateStatusCmd `cmd:"" help:"List all migrations and whether they are applied."`
}

type migrateUpCmd struct{ databaseFlags }

type migrateStatusCmd struct{ databaseFlags }

// Run implements the command.
func (c *migrateUpCmd) Run(ctx context.Context, p *program) error {
	return withPool(ctx, p, c.databaseFlags, func(pool *pgxpool.Pool) error {
		applied, err := store.MigrateUp(ctx, pool, p.log)
		for _, m := range applied {
			_, _ = fmt.Fprintf(p.stdout, "applied %s\n", m.Name)
		}
		if err == nil && len(applied) == 0 {
			_, _ = fmt.Fprintln(p.stdout, "nothing to apply: the schema is up to date")
		}
		return err
	})
}

// Run implements the command.
func (c *migrateStatusCmd) Run(ctx context.Context, p *program) error {
	return withPool(ctx, p, c.databaseFlags, func(pool *pgxpool.Pool) error {
		all, err := store.MigrateStatus(ctx, pool, p.log)
		for _, m := range all {
			state := "missing"
			if m.Applied {
				state = "applied"
			}
			_, _ = fmt.Fprintf(p.stdout, "%s  %s\n", state, m.Name)
		}
		return err
	})
}

func withPool(ctx context.Context, p *program, f databaseFlags, fn func(*pgxpool.Pool) error) error {
	pool, err := store.Open(ctx, f.DatabaseURL, store.Options{MaxConns: f.DatabaseMax, Log: p.log, Clock: p.clock})
	if err != nil {
		return err
	}
	defer pool.Close()
	return fn(pool)
}
