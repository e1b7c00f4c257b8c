package views

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Reader tells owners how often their pages were looked at. It is safe for concurrent use.
type Reader struct {
	db    dbsqlc.DBTX
	clock clock.Clock
}

// NewReader makes a Reader over a pool.
func NewReader(db dbsqlc.DBTX, c clock.Clock) *Reader { return &Reader{db: db, clock: c} }

// MaxDays is the longest stretch that is told at once.
const MaxDays = 366

// Day are the views of one UTC day.
type Day struct {
	Date     calendar.Day
	Profile  int64
	Sessions int64 // of all sessions together
}

// Days are the views of a user's pages on the last days, 1 to MaxDays of them, oldest first and today's last, by UTC day. A
// day without views is there with zeros. What was seen in the last minutes may not be counted yet.
func (r *Reader) Days(ctx context.Context, userID uuid.UUID, days int) ([]Day, error) {
	days = min(max(days, 1), MaxDays)
	first := calendar.DayOf(r.clock.Now().UTC()) - calendar.Day(days-1)
	rows, err := dbsqlc.New().ViewsListDays(ctx, r.db, userID, first)
	if err != nil {
		return nil, fmt.Errorf("read views: %w", err)
	}
	list := make([]Day, days)
	for i := range list {
		list[i].Date = first + calendar.Day(i)
	}
	for _, row := range rows {
		if i := int(row.Day - first); i < len(list) { // another process's clock may be ahead of ours
			list[i].Profile, list[i].Sessions = row.Profile, row.Sessions
		}
	}
	return list, nil
}
