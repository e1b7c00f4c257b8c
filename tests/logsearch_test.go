package tests

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/redact"
)

// logSearch looks for a secret in all that is logged, as it is logged: a long trial logs more than one would keep.
type logSearch struct {
	secret *secret
	also   [][]byte // other texts that nothing may log

	mu    sync.Mutex
	lines int      // at level debug: what was searched was all there is
	found []string // lines, the first few
}

// logger is a logger as the program has it, at every level.
func (l *logSearch) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l.stream(), &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: redact.Attr}))
}

// stream is where one logger or process writes.
func (l *logSearch) stream() io.Writer { return &logStream{logSearch: l} }

type logStream struct {
	*logSearch
	rest []byte // a line that has not ended
}

// Write implements io.Writer.
func (s *logStream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		line, rest, ended := bytes.Cut(s.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		s.look(line)
		s.rest = append(s.rest[:0], rest...)
	}
}

func (l *logSearch) look(line []byte) {
	if bytes.Contains(line, []byte("level=DEBUG")) {
		l.lines++
	}
	holds := l.secret.in(line)
	for _, text := range l.also {
		holds = holds || bytes.Contains(line, text)
	}
	if holds && len(l.found) < 10 {
		l.found = append(l.found, string(line))
	}
}

// requireNothing fails the test unless much was searched and nothing found.
func (l *logSearch) requireNothing(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Greater(t, l.lines, 100, "lines that were searched")
	require.Empty(t, l.found)
}

// The search is known to find what is there, also in a line that comes in parts.
func TestLogSearch(t *testing.T) {
	t.Parallel()
	l := &logSearch{secret: secretOf(raceMark), also: [][]byte{[]byte("F12")}}
	a, b := l.stream(), l.stream()
	for _, part := range []struct {
		to   io.Writer
		text string
	}{{a, "level=DEBUG path=/zq7sec"}, {b, "msg=other\n"}, {a, "retzq7/a.go\nlevel=DEBUG keys=F1"}, {a, "2\n"}} {
		_, err := io.WriteString(part.to, part.text)
		require.NoError(t, err)
	}
	l.logger().Debug("deliberate", "project", raceMark)
	require.Len(t, l.found, 3)
	require.Equal(t, 3, l.lines)
}
