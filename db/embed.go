// Package db carries the schema migrations inside the binary.
package db

import "embed"

// Migrations holds migrations/*.sql, in goose's format.
//
//go:embed migrations/*.sql
var Migrations embed.FS
