package replay

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"github.com/commma/commma/internal/clock"
)

// logEvery is how often progress is logged where there is no terminal, and the shortest wait worth mentioning.
const logEvery = 5 * time.Second

// progress tells a person how far the upload is. Implementations are safe for concurrent use.
type progress interface {
	add(events int)
	waiting(d time.Duration)
	finish()
}

// Terminal is f if it is a terminal, else nil: what Config.Bar wants.
func Terminal(f *os.File) io.Writer {
	if isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()) {
		return f
	}
	return nil
}

func newProgress(ctx context.Context, cfg *Config, events int) progress {
	if cfg.Bar != nil {
		return newBar(cfg.Bar, events)
	}
	return &logged{ctx: ctx, log: cfg.Log, clock: cfg.Clock, last: cfg.Clock.Now(), total: events}
}

// bar draws on a terminal.
type bar struct {
	w io.Writer
	b *progressbar.ProgressBar
}

const barTitle = "replaying events"

func newBar(w io.Writer, events int) *bar {
	return &bar{w, progressbar.NewOptions(events,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(barTitle),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("events"),
		progressbar.OptionThrottle(100*time.Millisecond),
	)}
}

func (b *bar) add(events int) {
	b.b.Describe(barTitle)
	_ = b.b.Add(events)
}

func (b *bar) waiting(d time.Duration) {
	if d >= logEvery {
		b.b.Describe(fmt.Sprintf("%s (waiting %s)", barTitle, d.Round(time.Second)))
	}
}

// finish ends the line, so that what is printed next has its own.
func (b *bar) finish() {
	_ = b.b.Exit()
	_, _ = io.WriteString(b.w, "\n")
}

// logged writes a line every few seconds.
type logged struct {
	ctx   context.Context // lives as long as the Run that owns it
	log   *slog.Logger
	clock clock.Clock

	mu    sync.Mutex
	last  time.Time
	done  int
	total int
}

func (l *logged) add(events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done += events
	if now := l.clock.Now(); now.Sub(l.last) >= logEvery {
		l.last = now
		l.log.InfoContext(l.ctx, barTitle, "done", l.done, "total", l.total)
	}
}

func (l *logged) waiting(d time.Duration) {
	if d >= logEvery {
		l.log.InfoContext(l.ctx, barTitle+": waiting before the next try", "wait", d.Round(time.Second))
	}
}

func (l *logged) finish() {}
