package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/localstack"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

type devCmd struct {
	apiFlags
	loopFlags
	DataDir     string `help:"Where the private servers keep their data." default:".commma" env:"COMMMA_DATA_DIR" type:"path"`
	DatabaseURL string `help:"Use this Postgres instead of a private one." env:"COMMMA_DATABASE_URL" placeholder:"URL"`
	RedisURL    string `help:"Use this Redis instead of a private one." env:"COMMMA_REDIS_URL" placeholder:"URL"`
}

// Validate implements kong's check of a parsed command.
func (c *devCmd) Validate() error {
	if (c.DatabaseURL == "") != (c.RedisURL == "") {
		return errors.New("give both COMMMA_DATABASE_URL and COMMMA_REDIS_URL, or neither for private servers")
	}
	return errors.Join(c.apiFlags.check(), c.loopFlags.check())
}

// stopTimeout bounds the orderly end of the private servers.
const stopTimeout = 20 * time.Second

// Run implements the command.
func (c *devCmd) Run(ctx context.Context, p *program) error {
	say := func(line string) { _, _ = fmt.Fprintln(p.stderr, line) }
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen (choose another address with --listen): %w", err)
	}
	defer func() { _ = listener.Close() }()
	if localstack.Owns(c.DataDir, c.DatabaseURL) {
		// Somebody has sourced the file env in this shell.
		c.DatabaseURL, c.RedisURL = "", ""
	}
	f := storeFlags{databaseFlags: databaseFlags{DatabaseURL: c.DatabaseURL}, RedisURL: c.RedisURL}
	if f.DatabaseURL != "" {
		say("using the servers that COMMMA_DATABASE_URL and COMMMA_REDIS_URL name; unset both for private ones")
		return c.serve(ctx, p, f, listener)
	}
	if err := localstack.Ensure(ctx, say); err != nil {
		return err
	}
	stack, err := localstack.Start(ctx, localstack.Options{DataDir: c.DataDir, Log: p.log, Notify: say})
	if err != nil {
		return err
	}
	f.DatabaseURL, f.RedisURL = stack.DatabaseURL(), stack.RedisURL()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		<-stack.Done()
		cancel(errors.New("a private server has ended"))
	}()
	err = c.serve(ctx, p, f, listener)
	// The servers go last, whatever ended us.
	sctx, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer stop()
	return errors.Join(err, stack.Err(), stack.Stop(sctx))
}

// serve migrates, makes sure that there is a demo user, says what can be tried, and serves.
func (c *devCmd) serve(ctx context.Context, p *program, f storeFlags, listener net.Listener) error {
	if err := withPool(ctx, p, f.databaseFlags, func(pool *pgxpool.Pool) error {
		if _, err := store.MigrateUp(ctx, pool, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
		demo, err := ensureDemoUser(ctx, pool, filepath.Join(c.DataDir, "demo-user.json"))
		if err != nil {
			return err
		}
		return printWelcome(p, welcome{Demo: demo, Base: "http://" + listener.Addr().String(), DataDir: c.DataDir, Private: c.DatabaseURL == ""})
	}); err != nil {
		return err
	}
	b, err := openBackend(ctx, p, f, c.options(c.loopFlags))
	if err != nil {
		return err
	}
	defer b.Close()
	return b.serve(ctx, listener, c.apiFlags, &c.loopFlags)
}

// demoUser is the user that dev offers to play with. Its token is kept in the data directory, so that it survives a
// restart as the user does.
type demoUser struct {
	ID     uuid.UUID `json:"id"`
	Handle string    `json:"handle"`
	Token  string    `json:"token"`
}

func ensureDemoUser(ctx context.Context, pool *pgxpool.Pool, path string) (demoUser, error) {
	var demo demoUser
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		if json.Unmarshal(text, &demo) == nil && demo.works(ctx, pool) {
			return demo, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return demo, fmt.Errorf("read demo user: %w", err)
	}
	created, err := account.Create(ctx, pool, account.NewUser{Handle: "demo"})
	if errors.Is(err, account.ErrHandleTaken) {
		// There is one whose token nobody knows any more.
		created, err = account.Create(ctx, pool, account.NewUser{Handle: "demo-" + uuid.NewString()[:8]})
	}
	if err != nil {
		return demo, fmt.Errorf("create demo user: %w", err)
	}
	demo = demoUser{ID: created.ID, Handle: created.Handle, Token: created.Token}
	text, err = json.Marshal(demo)
	if err != nil {
		return demo, fmt.Errorf("encode demo user: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return demo, fmt.Errorf("keep demo user: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		return demo, fmt.Errorf("keep demo user: %w", err)
	}
	return demo, nil
}

// works says whether the database knows the user by this token.
func (d demoUser) works(ctx context.Context, pool *pgxpool.Pool) bool {
	row, err := dbsqlc.New().UserGetAuth(ctx, pool, d.ID)
	hash := admission.HashToken(d.Token)
	return err == nil && subtle.ConstantTimeCompare(row.TokenHash, hash[:]) == 1
}
