package account

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// DB is a pool, or a connection.
type DB interface {
	dbsqlc.DBTX
	store.Beginner
}

// Config bounds a change. Zero values mean the defaults.
type Config struct {
	// LockWait bounds the wait for each of the two locks; 3 s.
	LockWait time.Duration
	// Timeout bounds a change's transactions, waits included; 5 s. Together with what follows a commit (the cache, the
	// boards, an answer that reads the user) it must end well before the request does.
	Timeout time.Duration
	// FinalizeTimeout bounds what finalizing inside a change may take; 1 s, and never more than half of what is left of
	// Timeout. When it is used up, the change goes on without.
	FinalizeTimeout time.Duration
	// CacheTimeout bounds each write to the mode cache; 300 ms.
	CacheTimeout time.Duration
	// PublishTimeout bounds the publishing of the user's boards; 2 s.
	PublishTimeout time.Duration
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.LockWait, 3 * time.Second},
		{&c.Timeout, 5 * time.Second},
		{&c.FinalizeTimeout, time.Second},
		{&c.CacheTimeout, 300 * time.Millisecond},
		{&c.PublishTimeout, 2 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return c
}

// Deps are what a Service works with. All are needed but where it says otherwise.
type Deps struct {
	DB    DB
	Modes *privacy.Cache
	Clock clock.Clock
	Log   *slog.Logger

	// FinalizeFunc makes sessions of what has ended, by Postgres's clock, in a transaction that holds the writer lock.
	FinalizeFunc func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error
	// DeleteSessionFunc deletes a session, in a transaction that holds the writer lock.
	DeleteSessionFunc func(ctx context.Context, tx pgx.Tx, userID, sessionID uuid.UUID) error
	// EraseUserFunc erases what other domains keep of a user who is being deleted, after the user's sessions were, in a
	// transaction that holds both locks. It may be nil.
	EraseUserFunc func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error
	// ForgetFunc takes the user's token out of the cache.
	ForgetFunc func(ctx context.Context, userID uuid.UUID) error
	// ForgetPendingFunc takes out of Redis what has gathered of a user who is gone, or on off.
	ForgetPendingFunc func(ctx context.Context, userID uuid.UUID) error
	// EnqueueFunc writes the outbox row of the user, in the transaction that raised the version.
	EnqueueFunc func(ctx context.Context, tx pgx.Tx, userID uuid.UUID, version int64) error
	// PublishFunc brings the user's boards up to what is committed. It fails with leaderboard.ErrAway when the boards' store
	// does not answer.
	PublishFunc func(ctx context.Context, userID uuid.UUID) error
}

// Service changes users. It is safe for concurrent use.
type Service struct {
	deps Deps
	cfg  Config
}

// New is a Service.
func New(cfg Config, d Deps) (*Service, error) {
	if d.DB == nil || d.Modes == nil || d.Clock == nil || d.Log == nil ||
		d.FinalizeFunc == nil || d.DeleteSessionFunc == nil || d.ForgetFunc == nil || d.ForgetPendingFunc == nil || d.EnqueueFunc == nil || d.PublishFunc == nil {
		return nil, errors.New("make account service: a dependency is missing")
	}
	return &Service{deps: d, cfg: cfg.withDefaults()}, nil
}
