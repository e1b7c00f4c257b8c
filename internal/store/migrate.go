package store

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path"

	"github.com/jackc/pgx/v5"
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

// MissingMigrations are the names of the migrations that the database lacks. It takes no lock: it neither waits for a
// migration that runs nor needs a direct connection.
func MissingMigrations(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	names, err := fs.Glob(db.Migrations, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	applied, err := appliedVersions(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	var missing []string
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("read migration number: %w", err)
		}
		if !applied[version] {
			missing = append(missing, path.Base(name))
		}
	}
	return missing, nil
}

func appliedVersions(ctx context.Context, pool *pgxpool.Pool) (map[int64]bool, error) {
	rows, err := pool.Query(ctx, `SELECT version_id FROM goose_db_version WHERE is_applied`)
	if err != nil {
		return nil, err
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	const undefinedTable = "42P01"
	if err != nil && SQLState(err) != undefinedTable {
		return nil, err
	}
	applied := make(map[int64]bool, len(versions))
	for _, v := range versions {
		applied[v] = true
	}
	return applied, nil
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
