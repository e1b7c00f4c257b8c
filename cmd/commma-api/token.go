package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/servicetoken"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Make a service token for a job and print it, which happens only once."`
	List   tokenListCmd   `cmd:"" help:"List the service tokens, revoked ones too, one line of JSON each; never the tokens themselves."`
	Revoke tokenRevokeCmd `cmd:"" help:"Make a service token worthless from this moment on."`
}

type tokenCreateCmd struct {
	databaseFlags
	Name  string   `arg:"" help:"What the token is for: 1 to 64 letters, digits, dots, hyphens and underscores."`
	Scope []string `help:"What it may do: recaps, to read the recaps of all users (GET /v1/recaps)." enum:"recaps" required:""`
	JSON  bool     `help:"Print one line of JSON: name and token." name:"json"`
}

// Run implements the command.
func (c *tokenCreateCmd) Run(ctx context.Context, p *program) error {
	return withPool(ctx, p, c.databaseFlags, func(pool *pgxpool.Pool) error {
		scopes := make([]servicetoken.Scope, len(c.Scope))
		for i, s := range c.Scope {
			scopes[i] = servicetoken.Scope(s)
		}
		token, err := servicetoken.Create(ctx, pool, c.Name, scopes)
		if err != nil {
			return fmt.Errorf("create token: %w", err)
		}
		if c.JSON {
			return json.NewEncoder(p.stdout).Encode(map[string]string{"name": c.Name, "token": token})
		}
		_, err = fmt.Fprintf(p.stdout, "token %s: %s\nIt is not stored and will not be shown again.\n", c.Name, token)
		return err
	})
}

type tokenListCmd struct{ databaseFlags }

// Run implements the command.
func (c *tokenListCmd) Run(ctx context.Context, p *program) error {
	return withPool(ctx, p, c.databaseFlags, func(pool *pgxpool.Pool) error {
		tokens, err := servicetoken.List(ctx, pool)
		if err != nil {
			return err
		}
		enc := json.NewEncoder(p.stdout)
		for _, t := range tokens {
			if err := enc.Encode(t); err != nil {
				return err
			}
		}
		return nil
	})
}

type tokenRevokeCmd struct {
	databaseFlags
	Name string `arg:"" help:"Name of the token."`
}

// Run implements the command.
func (c *tokenRevokeCmd) Run(ctx context.Context, p *program) error {
	return withPool(ctx, p, c.databaseFlags, func(pool *pgxpool.Pool) error {
		if err := servicetoken.Revoke(ctx, pool, c.Name); err != nil {
			return fmt.Errorf("revoke token: %w", err)
		}
		_, err := fmt.Fprintf(p.stdout, "revoked %s\n", c.Name)
		return err
	})
}
