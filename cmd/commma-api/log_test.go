package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/redact"
)

// Every line of a process goes through here: an error in it says no more than its SQLSTATE.
func TestTheLoggerRedacts(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		err := fmt.Errorf("store batch: %w", &pgconn.PgError{Code: "22P02", Message: "invalid input: s3cr3t"})
		newLogger(&out, format, slog.LevelInfo).Error("request failed", "err", err)
		require.Contains(t, out.String(), "store batch: SQLSTATE 22P02")
		require.NotContains(t, out.String(), "s3cr3t")
	}
}

// A token in the wrong place of a command line is quoted by nobody.
func TestTheParserQuotesNoToken(t *testing.T) {
	t.Parallel()
	token := "cmm_" + strings.Repeat("x", 64)
	var c cli
	parser, err := newParser(&c)
	require.NoError(t, err)
	var out bytes.Buffer
	parser.Stdout, parser.Stderr = &out, redact.Writer(&out)
	parser.Exit = func(int) {}
	for _, args := range [][]string{{"replay", "/dev/null", token}, {"user", "create", "ada", "--tokn=" + token}, {token}} {
		_, err := parser.Parse(args)
		require.Error(t, err)
		parser.FatalIfErrorf(err)
	}
	require.Contains(t, out.String(), "cmm_…")
	require.NotContains(t, out.String(), token)

	plain, err := kong.New(&cli{}, kong.Vars{"cpus": "1"})
	require.NoError(t, err)
	require.NotEqual(t, plain.Stderr, mustParser(t).Stderr, "the parser writes through the filter")
}

func mustParser(t *testing.T) *kong.Kong {
	t.Helper()
	p, err := newParser(&cli{})
	require.NoError(t, err)
	return p
}
