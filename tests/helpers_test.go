package tests

import (
	"log/slog"

	"github.com/commma/commma/internal/languages"
)

func nopLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func isListed(key string) bool { return languages.Listed(key) }
