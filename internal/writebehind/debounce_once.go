package writebehind

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// debounceSource is under which name the ids stand in flushes.
const debounceSource = "debounce"

const (
	// maxFlushAge is how old a flush may be when it is applied. A process may be stopped between taking a flush and applying
	// it, and be woken when everybody has forgotten the flush's id.
	maxFlushAge = 24 * time.Hour
	// lapseFlush is when nobody can be about to commit it either: no transaction takes that long.
	lapseFlush = maxFlushAge + time.Hour
	// keepFlushes is for how long ids are remembered: far longer, so that whoever meets an older flush learns what became of it.
	keepFlushes = 7 * 24 * time.Hour
)

// Once records, in the transaction that applies a flush, that it was applied, and says whether the caller is the first to do
// so: false means that there is nothing left to apply. Of two at the same time the second waits for the first. takenAt is when
// the flush was taken, by Redis's clock; a flush that is older than a day by Postgres's clock and was not applied is an error,
// and will never be applied;
// an hour later what it held may be counted otherwise.
func Once(ctx context.Context, tx dbsqlc.DBTX, flush uuid.UUID, takenAt time.Time) (bool, error) {
	q := dbsqlc.New()
	args := dbsqlc.DebounceRecordParams{ID: flush, Source: debounceSource, TakenAt: takenAt, AgeS: int64(maxFlushAge.Seconds())}
	n, err := q.DebounceRecord(ctx, tx, args)
	if err != nil {
		return false, fmt.Errorf("record flush: %w", err)
	}
	if n == 1 {
		return true, nil
	}
	row, err := q.DebounceKnown(ctx, tx, dbsqlc.DebounceKnownParams{ID: flush, TakenAt: takenAt, AgeS: int64(lapseFlush.Seconds())})
	switch {
	case err != nil:
		return false, fmt.Errorf("look for flush: %w", err)
	case row.Known:
		return false, nil
	case row.Lapsed:
		return false, errLapsed
	default:
		return false, errTooOld
	}
}

// forgetFlushes forgets ids that nobody can ask for any more.
func forgetFlushes(ctx context.Context, db dbsqlc.DBTX) error {
	if _, err := dbsqlc.New().DebounceForget(ctx, db, debounceSource, int64(keepFlushes.Seconds())); err != nil {
		return fmt.Errorf("forget old flushes: %w", err)
	}
	return nil
}
