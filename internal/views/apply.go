package views

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/writebehind"
)

// entriesPerStatement bounds one statement. What gathers between two flushes is far less; what an outage leaves may be more.
const entriesPerStatement = 50_000

// Kind is the buffer of views.
func Kind() writebehind.Kind { return writebehind.Kind{Name: Name, Apply: apply} }

// entry is one field of a batch.
type entry struct {
	target Target
	day    calendar.Day
	n      int64
}

// apply adds a batch to the counters. A field that is no view is passed over: nothing may hold the others up for ever.
func apply(ctx context.Context, tx pgx.Tx, fields map[string]string) (int64, error) {
	entries := make([]entry, 0, len(fields))
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		target, day, err := parseField(field)
		n, errN := strconv.ParseInt(fields[field], 10, 64)
		if err == nil && errN == nil && n > 0 {
			entries = append(entries, entry{target, day, n})
		}
	}
	var rows int64
	for part := range slices.Chunk(entries, entriesPerStatement) {
		n, err := applyPart(ctx, tx, part)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, nil
}

// applyPart adds entries and returns for how many of them there was a session, or it was a profile's. It follows those whose
// session was absorbed meanwhile. What resolves to the same target twice, and
// finds no row there the second time, is gone: what took the row away had committed before the second time.
func applyPart(ctx context.Context, tx pgx.Tx, entries []entry) (int64, error) {
	var rows int64
	tried := make(map[Target]uuid.UUID) // where an entry led to that found no row
	for len(entries) > 0 {
		missed, err := dbsqlc.New().ViewsApply(ctx, tx, paramsOf(entries))
		if err != nil {
			return 0, fmt.Errorf("add views: %w", err)
		}
		again := make(map[Target]bool, len(missed))
		for _, m := range missed {
			t := Target{Owner: m.OwnerID, Session: m.SessionID}
			if led, ok := tried[t]; !ok || led != m.TargetID {
				again[t] = true
			}
			tried[t] = m.TargetID
		}
		left := entries[:0:0]
		for _, e := range entries {
			if again[e.target] {
				left = append(left, e)
			}
		}
		rows += int64(len(entries) - len(left))
		entries = left
	}
	return rows, nil
}

func paramsOf(entries []entry) dbsqlc.ViewsApplyParams {
	var p dbsqlc.ViewsApplyParams
	for _, e := range entries {
		p.Owners = append(p.Owners, e.target.Owner)
		p.Sessions = append(p.Sessions, e.target.Session)
		p.Days = append(p.Days, e.day)
		p.Counts = append(p.Counts, e.n)
	}
	return p
}

// EraseUserTx deletes the counters of a user's pages, in a transaction that holds both of the user's locks. The days go
// last: a flush writes a day only with the row of a counter locked, so what it wrote before is seen, and after that it finds
// no row.
func EraseUserTx(ctx context.Context, db dbsqlc.DBTX, userID uuid.UUID) error {
	q := dbsqlc.New()
	for _, erase := range []func(context.Context, dbsqlc.DBTX, uuid.UUID) error{
		q.ViewsDeleteSessions, q.ViewsDeleteUser, q.ViewsDeleteDays,
	} {
		if err := erase(ctx, db, userID); err != nil {
			return fmt.Errorf("erase counters: %w", err)
		}
	}
	return nil
}
