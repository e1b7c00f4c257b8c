package main

import (
	"io"
	"log/slog"
	"strconv"

	"github.com/commma/commma/internal/redact"
)

// newLogger is the one logger of a process: whatever is logged goes through redact.Attr.
func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: redact.Attr}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func itoa(n int) string { return strconv.Itoa(n) }
