package main

import (
	"context"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/commma/commma/internal/replay"
)

// progressEvery is how often a long command says how far it is, where nobody watches a bar.
const progressEvery = 5 * time.Second

// newProgress is a step function that draws a bar on a terminal, and else logs a line now and then; all is -1 where nobody
// knows. The second function ends the last bar.
func newProgress(ctx context.Context, p *program) (step func(done, all int64, what string), end func()) {
	if w := replay.Terminal(os.Stderr); w != nil {
		return newBar()
	}
	last := p.clock.Now()
	return func(done, all int64, what string) {
		if now := p.clock.Now(); now.Sub(last) >= progressEvery {
			last = now
			if all < 0 {
				p.log.InfoContext(ctx, "under way", "what", what, "done", done)
				return
			}
			p.log.InfoContext(ctx, "under way", "what", what, "done", done, "of", all)
		}
	}, func() {}
}

func newBar() (step func(done, all int64, what string), end func()) {
	var bar *progressbar.ProgressBar
	var now string
	end = func() {
		if bar != nil {
			_ = bar.Finish()
		}
	}
	step = func(done, all int64, what string) {
		if what != now {
			end()
			now = what
			bar = progressbar.NewOptions64(all, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionOnCompletion(func() { _, _ = os.Stderr.WriteString("\n") }))
		}
		if all >= 0 {
			done = min(done, all)
		}
		_ = bar.Set64(done)
	}
	return step, end
}
