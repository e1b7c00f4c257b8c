package recapmail

import (
	"context"
	"log/slog"
	"time"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/recap"
)

// reporter books what became of mails. Connections hand it one report each and wait; it takes all that have come while it
// was busy and books them by one statement. So a mail is booked before its connection begins the next, and the cost of a
// commit is shared.
type reporter struct {
	queue Queue
	week  recap.Week
	log   *slog.Logger
	in    chan handed
}

type handed struct {
	Report
	done chan<- error
}

func newReporter(q Queue, w recap.Week, log *slog.Logger, connections int) *reporter {
	return &reporter{queue: q, week: w, log: log, in: make(chan handed, connections)}
}

// report waits until a report is booked, or ctx ends.
func (r *reporter) report(ctx context.Context, rep Report) error {
	done := make(chan error, 1)
	select {
	case r.in <- handed{rep, done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run books until in is closed, or ctx ends.
func (r *reporter) run(ctx context.Context) {
	for first := range r.in {
		all := []handed{first}
		for more := true; more; {
			select {
			case h, ok := <-r.in:
				if more = ok; ok {
					all = append(all, h)
				}
			default:
				more = false
			}
		}
		err := r.book(ctx, all)
		for _, h := range all {
			h.done <- err
		}
	}
}

// The pauses between two attempts to book.
const (
	firstBookPause   = 50 * time.Millisecond
	longestBookPause = 2 * time.Second
)

// book does not give up by itself: what was sent and is not booked would be sent again.
func (r *reporter) book(ctx context.Context, all []handed) error {
	reports := make([]Report, len(all))
	for i := range all {
		reports[i] = all[i].Report
	}
	for pause := firstBookPause; ; pause = min(2*pause, longestBookPause) {
		booked, err := r.queue.Report(ctx, r.week, reports)
		if err == nil {
			if booked < int64(len(reports)) {
				r.log.WarnContext(ctx, "mails were booked by another job, or their users are gone", "mails", int64(len(reports))-booked)
			}
			return nil
		}
		r.log.WarnContext(ctx, "what became of mails could not be stored yet", "mails", len(reports), "err", err)
		if clock.Sleep(ctx, pause) != nil {
			return err
		}
	}
}
