package testenv

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
)

// Logger writes to the test's own log: shown when the test fails. What arrives after the end of the test is dropped, as
// the testing package panics over it.
func Logger(t testing.TB) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(w.close)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct {
	mu   sync.Mutex
	t    testing.TB
	over bool
}

func (w *testWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Log(string(bytes.TrimRight(line, "\n")))
	}
	return len(line), nil
}

func (w *testWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}
