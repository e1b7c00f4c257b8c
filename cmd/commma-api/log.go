package main

import (
	"io"
	"log/slog"
	"strconv"
)

func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func itoa(n int) string { return strconv.Itoa(n) }
