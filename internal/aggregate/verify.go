package aggregate

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// DriftKind says which two things that are stored of a user disagree.
type DriftKind string

// The kinds of drift in Postgres.
const (
	// DriftSession means that the seconds of a session do not add up to its duration.
	DriftSession DriftKind = "session"
	// DriftTotal means that totals are not the sums of the seconds of sessions.
	DriftTotal DriftKind = "total"
	// DriftStreak means that the streak is not the one that the days of the sessions make.
	DriftStreak DriftKind = "streak"
	// DriftCount means that the number of sessions that stands beside the user is not theirs.
	DriftCount DriftKind = "count"
)

// Drift is one kind of disagreement of one user.
type Drift struct {
	User    uuid.UUID
	Kind    DriftKind
	Rows    int64 // sessions, totals or streaks that are wrong; by how many a number of sessions is
	Seconds int64 // by how much in all, without signs; 0 for a streak and a number
}

// UsersAfter are up to n users in the order of their ids.
func UsersAfter(ctx context.Context, db dbsqlc.DBTX, after uuid.UUID, n int) ([]uuid.UUID, error) {
	ids, err := dbsqlc.New().VerifyListUsers(ctx, db, after, int32(n))
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	return ids, nil
}

// CountUsers is how many users there are.
func CountUsers(ctx context.Context, db dbsqlc.DBTX) (int64, error) {
	n, err := dbsqlc.New().VerifyCountUsers(ctx, db)
	if err != nil {
		return 0, fmt.Errorf("count users: %w", err)
	}
	return n, nil
}

// SessionSeconds are the seconds that sessions of users have in a span and language, "" for all: what their totals should be.
// Who is not shown or has none is left out.
func SessionSeconds(ctx context.Context, db dbsqlc.DBTX, users []uuid.UUID, t ShownTotal) (map[uuid.UUID]int64, error) {
	arg := dbsqlc.VerifySpanSecondsParams{UserIDs: users, FromDay: t.StartsOn, ToDay: endOfTime, Lang: t.Lang}
	if end, ok := t.End(); ok {
		arg.ToDay = end
	}
	rows, err := dbsqlc.New().VerifySpanSeconds(ctx, db, arg)
	if err != nil {
		return nil, fmt.Errorf("read seconds of sessions: %w", err)
	}
	seconds := make(map[uuid.UUID]int64, len(rows))
	for _, r := range rows {
		seconds[r.UserID] = r.Seconds
	}
	return seconds, nil
}

// endOfTime is after every day.
var endOfTime = calendar.Date(9999, time.December, 31)

// Verify compares what is stored of a page of users: sessions with their seconds, these with totals, and their days with
// streaks. It takes no locks. It is one statement, hence of one snapshot, and what finalize commits is committed together:
// so no writer that runs beside it can look like drift.
//
// The totals of a user whose session seconds do not add up are not compared: of the two, the totals may be right.
func Verify(ctx context.Context, db dbsqlc.DBTX, users []uuid.UUID) ([]Drift, error) {
	rows, err := dbsqlc.New().VerifyUsers(ctx, db, users)
	if err != nil {
		return nil, fmt.Errorf("compare users: %w", err)
	}
	broken := make(map[uuid.UUID]bool)
	for i := range rows {
		if DriftKind(rows[i].Kind) == DriftSession {
			broken[rows[i].UserID] = true
		}
	}
	var found []Drift
	for _, r := range rows {
		if kind := DriftKind(r.Kind); kind != DriftTotal || !broken[r.UserID] {
			found = append(found, Drift{User: r.UserID, Kind: kind, Rows: r.Off, Seconds: r.Seconds})
		}
	}
	return found, nil
}
