package app

import (
	"time"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/views"
	"github.com/commma/commma/internal/writebehind"
)

// Options are what a program or a test may have otherwise. The zero value is the public service, with nobody watching.
type Options struct {
	// Parallel is how many users the aggregator finalizes at the same time; default 1.
	Parallel int
	// Languages resolves the names of languages; default languages.New.
	Languages *languages.Resolver

	// Admission is who is let in, and how often; without PerHour all of it is admission.DefaultConfig.
	Admission admission.Config
	Account   account.Config
	Views     views.RecorderConfig
	// Boards is how boards are read. Its Log is the App's unless given.
	Boards leaderboard.ReaderConfig

	// ModeTTL is how long a mode stays cached; default privacy.DefaultTTL. ModeClock is by whose time a mode that is filled
	// in is too old for that; default the App's.
	ModeTTL   time.Duration
	ModeClock clock.Clock
	// PublishClock says which periods are kept when a change publishes its user; default Redis's own.
	PublishClock clock.Clock

	// Observer is told of admissions; optional.
	Observer admission.Observer
	// ObserveCounterFunc gives for each kind of debounced counter who is told of its flushes; optional.
	ObserveCounterFunc func(counter string) writebehind.ObserveFunc
}

func (o Options) withDefaults(c clock.Clock) Options {
	o.Parallel = max(o.Parallel, 1)
	if o.Languages == nil {
		o.Languages = languages.New()
	}
	if o.Admission.PerHour == nil {
		o.Admission = admission.DefaultConfig()
	}
	if o.ModeClock == nil {
		o.ModeClock = c
	}
	if o.ObserveCounterFunc == nil {
		o.ObserveCounterFunc = func(string) writebehind.ObserveFunc { return nil }
	}
	return o
}
