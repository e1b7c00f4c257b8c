package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
)

type userCmd struct {
	Create userCreateCmd `cmd:"" help:"Create a user and print its token, which is shown only once."`
}

type userCreateCmd struct {
	databaseFlags
	Handle   string `arg:"" help:"1 to 39 letters, digits and hyphens."`
	Timezone string `help:"IANA time zone, such as Europe/Berlin." default:"UTC"`
	Privacy  string `help:"full keeps paths and key counts, summary does not, off keeps nothing." enum:"full,summary,off" default:"full"`
	Email    string `help:"Where the user wants mail. Whether they want any is their own choice." placeholder:"ADDRESS"`
	JSON     bool   `help:"Print one line of JSON: id, handle and token." name:"json"`
}

// Run implements the command.
func (c *userCreateCmd) Run(ctx context.Context, p *program) error {
	return withPool(ctx, p, c.databaseFlags, func(pool *pgxpool.Pool) error {
		created, err := account.Create(ctx, pool, account.NewUser{Handle: c.Handle, Zone: c.Timezone, Mode: activity.Mode(c.Privacy), Email: c.Email})
		if err != nil {
			return fmt.Errorf("create user: %w", err)
		}
		if c.JSON {
			return json.NewEncoder(p.stdout).Encode(map[string]string{
				"id": created.ID.String(), "handle": created.Handle, "token": created.Token,
			})
		}
		_, err = fmt.Fprintf(p.stdout, "created %s (%s)\ntoken: %s\nThe token is not stored and will not be shown again.\n",
			created.Handle, created.ID, created.Token)
		return err
	})
}
