package aggregate

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// DropOpenTx drops the hot events of a user's runs that have not ended, by Postgres's clock, and their marks, and leaves
// what has ended for the aggregator. It is for a user who switches to off and cannot be finalized on the spot: too many
// events, or data that fails. It runs in a transaction of the caller, who holds both of the user's locks and took them by
// earlier statements.
//
// Which runs are open is for the code to say that finalizes them, and it is shown all that matters for that: no run with
// an event older than openLimit is open, so seconds from a little before it on tell whether a run reaches back so far.
// That bounds what is read by the seconds of a day, however many events there are.
func DropOpenTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	q := dbsqlc.New()
	user, err := q.FinalizeGetUser(ctx, tx, nil, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read user: %w", err)
	}
	from := user.NowS - openLimit - activity.IdleSeconds
	seconds, err := q.OpenGetSeconds(ctx, tx, userID, from*1000)
	if err != nil {
		return fmt.Errorf("read seconds of hot events: %w", err)
	}
	for _, open := range openRuns(seconds, user.NowS, stretches(user.DeletedFirstS, user.DeletedLastS)) {
		events := dbsqlc.OpenDeleteEventsParams{UserID: userID, FromMs: open.first * 1000, BeforeMs: (open.last + 1) * 1000}
		if err := q.OpenDeleteEvents(ctx, tx, events); err != nil {
			return fmt.Errorf("delete events of the open run: %w", err)
		}
		marks := dbsqlc.OpenDeleteHotRunsParams{UserID: userID, FirstS: open.first, LastS: open.last}
		if err := q.OpenDeleteHotRuns(ctx, tx, marks); err != nil {
			return fmt.Errorf("delete hot runs of the open run: %w", err)
		}
	}
	return nil
}

// openRuns are the runs that stay open when a user with events in these seconds is finalized at now: at most two, for
// one may have begun ahead of the clock.
func openRuns(seconds []int64, now int64, deleted []stretch) []stretch {
	hot := hotSet{events: eventsAt(seconds), seqs: make([]int64, len(seconds))}
	return hot.ended(now, deleted).open
}

// FailureReason is why a user could not be finalized, as a class of failure or an SQLSTATE: never data of the user.
func FailureReason(err error) string { return classify(err).reason }
