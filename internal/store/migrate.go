package store

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/commma/commma/db"
)

// Migration is one schema migration and whether the database has it.
type Migration struct {
	Version int64
	Name    string
	Applied bool
}

// MigrateUp applies what is missing and returns what it applied. Processes that start together wait for each other on
// a session lock, so this needs a direct connection, not a transaction pooler.
func MigrateUp(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) ([]Migration, error) {
	var applied []Migration
	err := withGoose(pool, log, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			applied = append(applied, Migration{Version: r.Source.Version, Name: r.Source.Path, Applied: true})
		}
		return err
	})
	if err != nil {
		return applied, fmt.Errorf("migrate up: %w", err)
	}
	return applied, nil
}

// MigrateStatus lists all migrations, oldest first.
func MigrateStatus(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) ([]Migration, error) {
	var all []Migration
	err := withGoose(pool, log, func(p *goose.Provider) error {
		status, err := p.Status(ctx)
		for _, s := range status {
			all = append(all, Migration{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read migration status: %w", err)
	}
	return all, nil
}

func withGoose(pool *pgxpool.Pool, log *slog.Logger, fn func(*goose.Provider) error) error {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	files, err := fs.Sub(db.Migrations, "migrations")
	if err != nil {
		return err
	}
	sqlDB := stdlib.OpenDBFromPool(pool)
	defer func() { _ = sqlDB.Close() }()
	p, err := goose.NewProvider(goose.DialectPostgres, sqlDB, files, goose.WithSessionLocker(locker), goose.WithSlog(log))
	if err != nil {
		return err
	}
	return fn(p)
}
