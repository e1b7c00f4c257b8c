package tests

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/store/dbsqlc"
)

func nopLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func isListed(key string) bool { return languages.Listed(key) }

// newFinalizer is wired as the program's is.
func newFinalizer() *aggregate.Finalizer { return newFinalizerWith(outbox.Enqueue) }

func newFinalizerWith(enqueue aggregate.EnqueueFunc) *aggregate.Finalizer {
	return aggregate.NewFinalizer(enqueue, func(ctx context.Context, db dbsqlc.DBTX, user uuid.UUID, c aggregate.Changed) error {
		merged := make([]engagement.Merge, len(c.Merged))
		for i, m := range c.Merged {
			merged[i] = engagement.Merge(m)
		}
		return engagement.SessionsChanged(ctx, db, user, c.Made, merged, c.Deleted)
	})
}
