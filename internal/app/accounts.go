package app

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/export"
	"github.com/commma/commma/internal/following"
	"github.com/commma/commma/internal/groups"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/recapmail"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/views"
)

// NewFinalizer is the program's Finalizer: what people did to sessions follows them when they merge or go. enqueue is
// outbox.Enqueue, unless a test breaks it.
func NewFinalizer(enqueue aggregate.EnqueueFunc) *aggregate.Finalizer {
	return aggregate.NewFinalizer(enqueue, followSessions)
}

func followSessions(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID, c aggregate.Changed) error {
	merged := make([]engagement.Merge, len(c.Merged))
	for i, m := range c.Merged {
		merged[i] = engagement.Merge(m)
	}
	return engagement.SessionsChanged(ctx, db, userID, c.Made, merged, c.Deleted)
}

// newAccounts composes what a change of a user, or its end, means in all domains.
func newAccounts(a *App, o Options) (*account.Service, error) {
	return account.New(o.Account, account.Deps{
		DB: a.DB, Modes: a.Modes, Clock: a.Clock, Log: a.Log,
		FinalizeFunc: func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
			_, err := a.Finalizer.FinalizeTx(ctx, tx, userID, nil)
			return err
		},
		DeleteSessionFunc: a.Finalizer.DeleteSessionTx,
		EraseUserFunc:     a.eraseUser,
		ForgetFunc:        a.Admission.Forget,
		ForgetPendingFunc: func(ctx context.Context, userID uuid.UUID) error {
			return errors.Join(a.Views.Forget(ctx, userID), a.LastSeen.Forget(ctx, userID))
		},
		EnqueueFunc: func(ctx context.Context, tx pgx.Tx, userID uuid.UUID, version int64) error {
			return outbox.Enqueue(ctx, tx, userID, version)
		},
		PublishFunc: func(ctx context.Context, userID uuid.UUID) error {
			var now *time.Time // Redis's
			if o.PublishClock != nil {
				t := o.PublishClock.Now()
				now = &t
			}
			return a.Publisher.PublishUsers(ctx, now, userID)
		},
	})
}

// eraseUser erases what other domains keep of a user who is being deleted. Rows of groups come last of what
// others may hold and wait for each other with.
func (a *App) eraseUser(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	if err := a.Counters.eraseUser(ctx, tx, userID); err != nil {
		return err
	}
	if err := following.EraseUserTx(ctx, tx, userID); err != nil {
		return err
	}
	return groups.EraseUserTx(ctx, tx, userID)
}

// newExporter composes what all domains keep of a user. It starts with who that is.
func newExporter(db store.Beginner, c clock.Clock) *export.Exporter {
	return export.New(db, c, export.Config{},
		account.ExportTx, ingest.ExportTx, aggregate.ExportTx, engagement.ExportTx, views.ExportTx, following.ExportTx,
		groups.ExportTx, recapmail.ExportTx, outbox.ExportTx)
}
