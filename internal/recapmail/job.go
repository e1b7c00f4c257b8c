package recapmail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/recap"
)

// Queue is where the mails of a week stand: a *Postgres.
type Queue interface {
	Now(ctx context.Context) (time.Time, error)
	Enqueue(ctx context.Context, w recap.Week, users []uuid.UUID) error
	Again(ctx context.Context, w recap.Week, outcomes []Outcome) (mails int64, err error)
	Prune(ctx context.Context, before recap.Week) error
	Claim(ctx context.Context, w recap.Week, claim int64, lease time.Duration, n int) ([]Claimed, error)
	Report(ctx context.Context, w recap.Week, reports []Report) (booked int64, err error)
	Release(ctx context.Context, w recap.Week, claim int64, users []uuid.UUID) error
	Drop(ctx context.Context, w recap.Week, claim int64, users []uuid.UUID) error
	Next(ctx context.Context, w recap.Week) (pending int64, in time.Duration, err error)
	Counts(ctx context.Context, w recap.Week) (Counts, error)
}

// Deps are what a Job works with.
type Deps struct {
	Queue  Queue
	Reader *recap.Reader
	Links  *Links
	Clock  clock.Clock
	Log    *slog.Logger
}

// Config is how a Job goes. Zero values mean the defaults.
type Config struct {
	Week        recap.Week
	Letter      Letter
	Server      Server
	Connections int           // to the server at a time, each with a mail in hand; default 8
	Rate        float64       // mails per second of this process; 0 is no limit
	Lease       time.Duration // for how long a batch is reserved; default 4 min
	Retries     Retries
	Again       []Outcome // Refused or GivenUp: mails of the week that became so are sent as if for the first time
	// Step is told how far the job is; nil for nobody.
	Step func(done, all int64, what string)
}

func (c Config) withDefaults() Config {
	if c.Connections <= 0 {
		c.Connections = 8
	}
	if c.Lease <= 0 {
		c.Lease = 4 * time.Minute
	}
	if c.Step == nil {
		c.Step = func(int64, int64, string) {}
	}
	c.Retries = c.Retries.withDefaults()
	return c
}

// mailTimeout bounds a mail: half of the lease, so that one can always be begun, and no more than servers need to look into
// what they take. Who hangs up sooner sends it twice.
func (c Config) mailTimeout() time.Duration { return min(c.Lease/2, 2*time.Minute) }

// MinLease is the shortest lease that leaves time for a mail.
const MinLease = time.Second

// What goes wrong before the first mail.
var (
	ErrTooEarly = errors.New("the week is not over everywhere yet")
	ErrTooLate  = errors.New("the week is too long over: whom it was mailed to is no longer known")
)

// For how long a week can be sent, and how long its rows stay: longer, by Postgres's clock alike.
const (
	sendWeeks = 8
	keepWeeks = 10
)

// Result is what a Job has to say: how the mails of the week stand when it ends, whoever sent them.
type Result struct {
	Week    string  `json:"week"`
	Sent    int64   `json:"sent"`
	Refused int64   `json:"refused"`  // by the server, for good
	GivenUp int64   `json:"given_up"` // refused for now too often
	Left    int64   `json:"left"`     // not sent yet; only when the job was stopped
	Mailed  int64   `json:"mailed"`   // by this process
	TookS   float64 `json:"took_s"`
}

// Job mails the recaps of a week.
type Job struct {
	Deps
	cfg    Config
	ranks  *recap.Ranks
	rate   *rate
	report *reporter
	start  start
	mailed counter
}

// NewJob makes a Job.
func NewJob(cfg Config, d Deps) (*Job, error) {
	cfg = cfg.withDefaults()
	switch {
	case cfg.Lease < MinLease:
		return nil, fmt.Errorf("make recap job: a lease of %v leaves no time for a mail: at least %v", cfg.Lease, MinLease)
	case cfg.Letter.From == nil:
		return nil, errors.New("make recap job: there is no sender")
	}
	for _, o := range cfg.Again {
		if o != Refused && o != GivenUp {
			return nil, fmt.Errorf("make recap job: mails can be sent again that are %s or %s, not %q", Refused, GivenUp, o)
		}
	}
	return &Job{Deps: d, cfg: cfg, rate: newRate(d.Clock, cfg.Rate)}, nil
}

// Run mails until nothing of the week is left, or ctx ends: then the mails in hand are still handed over. It fails with
// ErrTooEarly or ErrTooLate, having done nothing; with ErrSenderRefused or ErrAllRefused,
// which are about the settings; or when it has no business with the server, or Postgres refuses.
func (j *Job) Run(ctx context.Context) (Result, error) {
	began := j.Clock.Now()
	r := Result{Week: j.cfg.Week.String()}
	if err := j.prepare(ctx); err != nil {
		return r, err
	}
	err := j.sendAll(ctx)
	r.TookS, r.Mailed = j.Clock.Now().Sub(began).Seconds(), j.mailed.n.Load()
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	counts, countErr := j.Queue.Counts(cctx, j.cfg.Week)
	r.Sent, r.Refused, r.GivenUp, r.Left = counts.Sent, counts.Refused, counts.GivenUp, counts.Pending
	return r, errors.Join(err, countErr)
}

// lastTimeout bounds what is done of a job that was told to stop.
const lastTimeout = 10 * time.Second

// prepare checks that the week can be sent, and puts in the mails that are missing.
func (j *Job) prepare(ctx context.Context) error {
	now, err := j.Queue.Now(ctx)
	if err != nil {
		return err
	}
	if err := sendable(j.cfg.Week, now); err != nil {
		return err
	}
	oldest := j.cfg.Week
	for oldest.OverAt().AddDate(0, 0, 7*keepWeeks).After(now) {
		oldest = oldest.Previous()
	}
	if err := j.Queue.Prune(ctx, oldest); err != nil {
		return err
	}
	if err := j.again(ctx); err != nil {
		return err
	}
	if j.ranks, err = j.Reader.Ranks(ctx, j.cfg.Week); err != nil {
		return err
	}
	var looked int64
	for after, more := uuid.Nil, true; more; {
		var active []uuid.UUID
		if active, after, more, err = j.Reader.Active(ctx, j.cfg.Week, after, enqueuePage); err != nil {
			return err
		}
		if len(active) > 0 {
			if err := j.Queue.Enqueue(ctx, j.cfg.Week, active); err != nil {
				return err
			}
		}
		looked += int64(len(active))
		j.cfg.Step(looked, -1, "active users")
	}
	return nil
}

// again puts the mails back that are to be sent as if for the first time.
func (j *Job) again(ctx context.Context) error {
	if len(j.cfg.Again) == 0 {
		return nil
	}
	mails, err := j.Queue.Again(ctx, j.cfg.Week, j.cfg.Again)
	if err != nil {
		return err
	}
	j.Log.InfoContext(ctx, "mails are sent again that were refused or given up", "mails", mails)
	return nil
}

// enqueuePage is how many users are looked at per statement.
const enqueuePage = 1000

// sendable says whether a week can be sent at an instant.
func sendable(w recap.Week, now time.Time) error {
	if over := w.OverAt(); now.Before(over) {
		return fmt.Errorf("%w: %s can be sent from %s on", ErrTooEarly, w, over.Format(time.RFC3339))
	}
	if last := w.OverAt().AddDate(0, 0, 7*sendWeeks); now.After(last) {
		return fmt.Errorf("%w: %s could be sent until %s", ErrTooLate, w, last.Format(time.RFC3339))
	}
	return nil
}

// sendAll runs the connections. What they have in hand when ctx ends, and the booking of it, get their own time.
func (j *Job) sendAll(ctx context.Context) error {
	j.report = newReporter(j.Queue, j.cfg.Week, j.Log, j.cfg.Connections)
	lastCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(j.cfg.mailTimeout()+lastTimeout, cancel) })
	defer stop()
	booked := make(chan struct{})
	go func() {
		defer close(booked)
		j.report.run(lastCtx)
	}()
	g, gctx := errgroup.WithContext(ctx)
	for range j.cfg.Connections {
		g.Go(func() error {
			err := (&sender{Job: j, last: lastCtx}).run(gctx)
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil // told to stop
			}
			return err
		})
	}
	told := make(chan struct{})
	tellCtx, stopTelling := context.WithCancel(gctx)
	go func() {
		defer close(told)
		j.tell(tellCtx)
	}()
	err := g.Wait()
	stopTelling()
	<-told
	close(j.report.in)
	<-booked
	return err
}

// tellEvery is the time between two words on progress.
const tellEvery = 2 * time.Second

// tell says how far the week is, other jobs' mails included, until ctx ends.
func (j *Job) tell(ctx context.Context) {
	for {
		if c, err := j.Queue.Counts(ctx, j.cfg.Week); err == nil {
			j.cfg.Step(c.All()-c.Pending, c.All(), "mails")
		}
		if clock.Sleep(ctx, tellEvery) != nil {
			break
		}
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	if c, err := j.Queue.Counts(cctx, j.cfg.Week); err == nil {
		j.cfg.Step(c.All()-c.Pending, c.All(), "mails")
	}
}
