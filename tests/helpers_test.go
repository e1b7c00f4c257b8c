package tests

import (
	"log/slog"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/outbox"
)

func nopLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func isListed(key string) bool { return languages.Listed(key) }

func newFinalizer() *aggregate.Finalizer { return app.NewFinalizer(outbox.Enqueue) }
