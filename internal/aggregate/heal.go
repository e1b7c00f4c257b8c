package aggregate

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// ErrUnexplained means that the seconds of a user's sessions do not add up, and that the totals do not tell which value
// is right. Nothing was changed: a total must not be made to fit a session that is known to be wrong.
var ErrUnexplained = errors.New("session seconds do not add up and the totals do not explain them")

// Repair says what is to be repaired of a user.
type Repair struct {
	User uuid.UUID
	// Above is the newest version that a board was seen to hold of the user, at least 1 for one who is on a board at all,
	// and 0 when no board was looked at. The user's version is raised over it, so that boards take what is published.
	Above int64
	// Shown are boards that show the user wrongly, perhaps without there being a total.
	Shown []ShownTotal
}

// ShownTotal names a total by what a board shows of it. Lang is "" for all languages.
type ShownTotal struct {
	calendar.Span
	Lang string
}

// A board that holds a newer version than the database, as after a database was restored, is one of many, which may hold
// still newer ones. The healed user leaps far beyond them all: versions need only grow, and stay far below 2^53, up to
// which Redis counts exactly. An id never comes back, so one who is gone takes the last version there is.
const (
	versionLeap      = 1 << 32
	versionOfTheGone = 1 << 52
)

// HealTx makes the user's totals, streak and number of sessions what the sessions say, raises the user's version and tells
// the outbox, so that the boards follow. It runs in a transaction of the caller, who holds the user's writer lock and took it
// by an earlier statement. Where the seconds of one session do not add up, they are first restored from the day totals, if
// these explain the duration; else it fails with ErrUnexplained. A user who is gone is only told to the outbox.
func (f *Finalizer) HealTx(ctx context.Context, tx pgx.Tx, r Repair) error {
	version, err := f.queries.VerifyGetVersion(ctx, tx, r.User)
	gone := errors.Is(err, pgx.ErrNoRows)
	if err != nil && !gone {
		return fmt.Errorf("read version: %w", err)
	}
	switch {
	case gone && r.Above == 0:
		return nil // deleted since; the delete told the outbox
	case gone:
		version = versionOfTheGone
	case r.Above > version:
		version = r.Above + versionLeap
	default:
		version++
	}
	if !gone {
		if err := f.healRows(ctx, tx, r, version); err != nil {
			return err
		}
	}
	if err := f.enqueue(ctx, tx, r.User, version); err != nil {
		return fmt.Errorf("enqueue user: %w", err)
	}
	return nil
}

func (f *Finalizer) healRows(ctx context.Context, tx pgx.Tx, r Repair, version int64) error {
	if err := f.healSessions(ctx, tx, r.User); err != nil {
		return err
	}
	if err := f.queries.VerifyHealTotals(ctx, tx, r.User); err != nil {
		return fmt.Errorf("heal totals: %w", err)
	}
	if len(r.Shown) > 0 {
		zeros := dbsqlc.VerifyInsertZeroTotalsParams{UserID: r.User}
		for _, s := range r.Shown {
			zeros.Periods = append(zeros.Periods, string(s.Period))
			zeros.Starts = append(zeros.Starts, s.StartsOn)
			zeros.Langs = append(zeros.Langs, s.Lang)
		}
		if err := f.queries.VerifyInsertZeroTotals(ctx, tx, zeros); err != nil {
			return fmt.Errorf("insert zero totals: %w", err)
		}
	}
	if err := f.queries.VerifyHealSessionCount(ctx, tx, r.User); err != nil {
		return fmt.Errorf("heal number of sessions: %w", err)
	}
	streak := dbsqlc.FinalizeUpdateUserRebuildStreakParams{UserID: r.User, Version: version}
	if err := f.queries.FinalizeUpdateUserRebuildStreak(ctx, tx, streak); err != nil {
		return fmt.Errorf("heal streak: %w", err)
	}
	return nil
}

// healSessions restores the seconds of a session that do not add up. Two broken sessions could share a day, and then
// nothing says which of them lacks what.
func (f *Finalizer) healSessions(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
	rows, err := f.queries.VerifySessions(ctx, tx, []uuid.UUID{user})
	if err != nil {
		return fmt.Errorf("read broken sessions: %w", err)
	}
	var broken []dbsqlc.VerifySessionsRow
	for i := range rows {
		if !rows[i].Orphan {
			broken = append(broken, rows[i])
		}
	}
	if len(broken) < len(rows) {
		if err := f.queries.VerifyDeleteOrphans(ctx, tx, user); err != nil {
			return fmt.Errorf("delete seconds without a session: %w", err)
		}
	}
	switch len(broken) {
	case 0:
		return nil
	case 1:
		return f.restoreSeconds(ctx, tx, &broken[0])
	default:
		return ErrUnexplained
	}
}

// restoreSeconds gives a session what the day totals leave for it. That must add up to its duration and lie on its days.
func (f *Finalizer) restoreSeconds(ctx context.Context, tx pgx.Tx, s *dbsqlc.VerifySessionsRow) error {
	left, err := f.queries.VerifyExplainSeconds(ctx, tx, s.UserID, s.SessionID)
	if err != nil {
		return fmt.Errorf("read what totals leave: %w", err)
	}
	arg := dbsqlc.FinalizeInsertSecondsParams{UserID: s.UserID}
	var sum int64
	for _, l := range left {
		if l.Seconds < 0 || l.Day < s.FirstOn || l.Day > s.LastOn {
			return ErrUnexplained
		}
		sum += l.Seconds
		arg.SessionIDs = append(arg.SessionIDs, s.SessionID)
		arg.Days = append(arg.Days, l.Day)
		arg.Langs = append(arg.Langs, l.Lang)
		arg.Seconds = append(arg.Seconds, l.Seconds)
	}
	if sum != s.Duration {
		return ErrUnexplained
	}
	if err := f.queries.VerifyDeleteSeconds(ctx, tx, s.UserID, s.SessionID); err != nil {
		return fmt.Errorf("delete wrong seconds: %w", err)
	}
	if err := f.queries.FinalizeInsertSeconds(ctx, tx, arg); err != nil {
		return fmt.Errorf("restore seconds: %w", err)
	}
	return nil
}
