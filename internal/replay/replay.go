package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/clock"
)

// maxBatch is the most events that the API takes in one request.
const maxBatch = 500

// Config says how a file is uploaded. Zero values mean the defaults.
type Config struct {
	URL    string // base URL of the API, like http://127.0.0.1:8080
	Tokens Tokens

	BatchSize int           // events per request, 1 to 500; default 500
	Shuffle   bool          // shuffle each user's events, and make batches of random sizes up to BatchSize
	Seed      uint64        // of Shuffle: the same seed gives the same requests
	Parallel  int           // users at a time; default 4
	Attempts  int           // how often a request is tried that meets network errors or 5xx other than 503; default 8
	Shift     Shift         // weeks that events are moved forward
	MaxAge    time.Duration // how old an event the server accepts, for ShiftAuto; default 720 h

	Client *http.Client                               // default: 30 s per request
	Clock  clock.Clock                                // default: the system's
	Sleep  func(context.Context, time.Duration) error // default: a timer that ctx ends
	Bar    io.Writer                                  // a terminal to draw a progress bar on; nil: log lines instead
	Log    *slog.Logger                               // default: none
}

func (c *Config) setDefaults() {
	setDefault(&c.BatchSize, maxBatch)
	setDefault(&c.Parallel, 4)
	setDefault(&c.Attempts, 8)
	setDefault(&c.MaxAge, 720*time.Hour)
	if c.Client == nil {
		c.Client = &http.Client{Timeout: 30 * time.Second}
	}
	client := *c.Client // a redirect must not carry the token elsewhere, and is no answer
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Client = &client
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	if c.Sleep == nil {
		c.Sleep = clock.Sleep
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if !c.Shuffle {
		c.Seed = rand.Uint64()
	}
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (c *Config) check(f *File) error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("replay: want a URL like http://127.0.0.1:8080")
	}
	if c.BatchSize < 1 || c.BatchSize > maxBatch {
		return fmt.Errorf("replay: batch size %d: want 1 to %d", c.BatchSize, maxBatch)
	}
	if c.Parallel < 1 || c.Attempts < 1 || c.Shift.weeks < 0 {
		return errors.New("replay: parallel users and attempts must be positive, and weeks not negative")
	}
	for _, u := range f.users {
		if c.Tokens.of(u.name) == "" {
			return fmt.Errorf("replay: no token for user %q", u.name)
		}
	}
	return nil
}

// Summary is what became of the events of a file.
type Summary struct {
	Users         int            `json:"users"`
	Events        int            `json:"events"`         // in the file
	Sent          int            `json:"sent"`           // in requests that the server accepted
	Received      int            `json:"received"`       // counted as received by the server, duplicates too
	Duplicate     int            `json:"duplicate"`      // repeats within a request
	RejectedTotal int            `json:"rejected_total"` // refused one by one
	Rejected      map[string]int `json:"rejected"`       // RejectedTotal by reason; "unlisted" where the server listed none
	TooLarge      int            `json:"too_large"`      // refused alone with 413
	Requests      int            `json:"requests"`       // posted, repeats too
	ShiftedWeeks  int            `json:"shifted_weeks"`
}

// results gathers what the users' uploads come to.
type results struct {
	mu      sync.Mutex
	summary Summary
}

func (r *results) update(f func(*Summary)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.summary)
}

// Run uploads the whole file and returns when all users are done. The summary is true also beside an error, which joins
// those of the users that could not be finished: token refused, request refused, server or network failing for too long.
// When ctx ends, Run stops where it is.
func Run(ctx context.Context, f *File, cfg Config) (Summary, error) {
	cfg.setDefaults()
	if err := cfg.check(f); err != nil {
		return Summary{}, err
	}
	weeks, err := cfg.Shift.weeksFor(f.first, f.last, cfg.Clock.Now(), cfg.MaxAge)
	if err != nil {
		return Summary{}, err
	}
	res := &results{summary: Summary{
		Users: len(f.users), Events: f.events, ShiftedWeeks: weeks, Rejected: make(map[string]int),
	}}
	progress := newProgress(ctx, &cfg, f.events)
	errs := make([]error, len(f.users))
	var g errgroup.Group
	g.SetLimit(cfg.Parallel)
	for i, u := range f.users {
		g.Go(func() error {
			up := newUpload(&cfg, f, u, i)
			up.shift, up.results, up.progress = int64(weeks)*week.Milliseconds(), res, progress
			errs[i] = up.run(ctx)
			return nil
		})
	}
	_ = g.Wait() // each user's error stands in errs
	progress.finish()
	if ctx.Err() != nil {
		return res.summary, fmt.Errorf("replay: %w", context.Cause(ctx))
	}
	return res.summary, errors.Join(errs...)
}
