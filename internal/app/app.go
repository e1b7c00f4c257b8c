package app

import (
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/following"
	"github.com/commma/commma/internal/groups"
	"github.com/commma/commma/internal/health"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/profile"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/recapmail"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/verify"
	"github.com/commma/commma/internal/views"
	"github.com/commma/commma/internal/writebehind"
)

// App is every service, over one Postgres and one Redis. All of them are safe for concurrent use.
type App struct {
	DB    *pgxpool.Pool
	Redis redis.UniversalClient
	Clock clock.Clock
	Log   *slog.Logger

	// Who is let in, and what a user may change.
	Modes     *privacy.Cache
	Admission *admission.Admitter
	Accounts  *account.Service

	// From events to sessions and totals.
	Events     *ingest.Writer // stores while its Run does
	Languages  *languages.Resolver
	Finalizer  *aggregate.Finalizer
	Aggregator *aggregate.Aggregator
	Pruner     *aggregate.Pruner

	// From totals to boards.
	Builder   *leaderboard.Builder
	Publisher *outbox.Publisher
	Checker   *verify.Checker
	Bell      leaderboard.Bell

	// What is read.
	Boards   *leaderboard.Reader
	Circles  *leaderboard.Circles
	Sessions *sessions.Reader
	Profiles *profile.Reader
	Today    *aggregate.TodayReader
	Exports  *export.Exporter
	ViewDays *views.Reader
	Recaps   *recap.Reader
	Links    *recapmail.Links // of mails
	Health   *health.Redis

	// What users are to each other.
	Groups    *groups.Service
	Following *following.Service

	// What others do to sessions and pages, and how it gets from Redis to Postgres.
	Engagement *engagement.Service
	Counters   *Counters
	Views      *views.Recorder
	LastSeen   *lastseen.Seen
	Flusher    *writebehind.Flusher
}

// New wires an App over servers that the caller has opened, and closes. It fails on options that make no sense.
func New(db *pgxpool.Pool, rdb redis.UniversalClient, c clock.Clock, log *slog.Logger, o Options) (*App, error) {
	o = o.withDefaults(c)
	if o.Boards.Log == nil {
		o.Boards.Log = log
	}
	keys := languages.Keys()
	a := &App{
		DB: db, Redis: rdb, Clock: c, Log: log,
		Modes:     privacy.NewCache(rdb, o.ModeClock, o.ModeTTL),
		Events:    ingest.NewWriter(db, log, ingest.DefaultWriterConfig()),
		Languages: o.Languages,
		Finalizer: NewFinalizer(outbox.Enqueue),
		Pruner:    aggregate.NewPruner(db, aggregate.PruneConfig{}),
		Builder:   leaderboard.NewBuilder(db, rdb, keys, log),
		Bell:      leaderboard.NewBell(rdb),
		Boards:    leaderboard.NewReader(db, rdb, o.Boards),
		Circles:   leaderboard.NewCircles(db, keys),
		Sessions:  sessions.NewReader(db),
		Profiles:  profile.NewReader(db, c, keys),
		Today:     aggregate.NewTodayReader(db, c),
		Exports:   newExporter(db, c),
		ViewDays:  views.NewReader(db, c),
		Recaps:    recap.NewReader(db, c, keys),
		Links:     recapmail.NewLinks(db),
		Health:    health.NewRedis(rdb),
		Groups:    groups.NewService(db),
		Following: following.NewService(db),
		Views:     views.NewRecorder(rdb, c, log, o.Views),
		LastSeen:  lastseen.New(db, rdb, c),
		Flusher:   writebehind.NewFlusher(db, rdb, c, views.Kind(), lastseen.Kind()),
	}
	// What stands on others.
	a.Aggregator = aggregate.New(db, a.Finalizer, c, log, o.Parallel)
	a.Publisher = outbox.New(db, leaderboard.NewBoards(rdb), a.Builder, keys)
	a.Checker = verify.New(verify.Deps{
		DB: db, Finalizer: a.Finalizer, Boards: leaderboard.NewVerifier(db, rdb, keys), Builder: a.Builder, Publisher: a.Publisher,
		Clock: c, Log: log,
	})
	a.Counters = newCounters(a, o.ObserveCounterFunc)
	a.Engagement = engagement.NewService(db, a.Counters.shares, a.Counters.engaged, log)
	var err error
	if a.Admission, err = admission.New(o.Admission, admission.Deps{
		DB: db, Redis: rdb, Modes: a.Modes, Seen: a.LastSeen, Clock: c, Log: log, Observer: o.Observer,
	}); err != nil {
		return nil, fmt.Errorf("wire admission: %w", err)
	}
	if a.Accounts, err = newAccounts(a, o); err != nil {
		return nil, fmt.Errorf("wire accounts: %w", err)
	}
	return a, nil
}
