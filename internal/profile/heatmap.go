package profile

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/zones"
)

// MaxHeatmapDays is the longest stretch of a heatmap: a year, whichever.
const MaxHeatmapDays = 366

// defaultHeatmapDays is how many days there are without a stretch, the user's today as the last one.
const defaultHeatmapDays = 365

// ErrBadDays means that a stretch of days is empty or too long.
var ErrBadDays = errors.New("a heatmap has 1 to 366 days")

// Days is a stretch of local days, both ends included.
type Days struct{ From, To calendar.Day }

// Heatmap is how long a user coded on each day of a stretch, in all languages.
type Heatmap struct {
	User
	Days
	Seconds []int64 // of each day, From first
}

// Heatmap reads the heatmap of the user with this handle, or the viewer's own where it is "", as viewer may see it; uuid.Nil is
// an anonymous one. Without days it is of the year that ends today in the user's zone. It costs what its days cost, whatever
// came before them. It fails with ErrNotFound, also for a user on off, except to themselves, and with ErrBadDays.
func (r *Reader) Heatmap(ctx context.Context, viewer uuid.UUID, handle string, days *Days) (Heatmap, error) {
	if days != nil && (days.To < days.From || days.To-days.From >= MaxHeatmapDays) {
		return Heatmap{}, ErrBadDays
	}
	u, err := r.find(ctx, viewer, handle)
	if err != nil {
		return Heatmap{}, err
	}
	if days == nil {
		today := zones.DayAt(r.clock.Now(), u.Zone)
		days = &Days{From: today - defaultHeatmapDays + 1, To: today}
	}
	row, err := dbsqlc.New().ProfileGetDays(ctx, r.db, dbsqlc.ProfileGetDaysParams{UserID: u.ID, FromDay: days.From, ToDay: days.To})
	if errors.Is(err, pgx.ErrNoRows) {
		return Heatmap{}, ErrNotFound
	}
	if err != nil {
		return Heatmap{}, fmt.Errorf("read days: %w", err)
	}
	// Decided anew, by the mode that was read with the days.
	if privacy.Hides(viewer, u.ID, row.Privacy, privacy.Heatmap) {
		return Heatmap{}, ErrNotFound
	}
	return Heatmap{User: u, Days: *days, Seconds: row.Seconds}, nil
}

// find is User, and where there is no handle the viewer.
func (r *Reader) find(ctx context.Context, viewer uuid.UUID, handle string) (User, error) {
	if handle != "" {
		return r.User(ctx, viewer, handle)
	}
	u, err := dbsqlc.New().ProfileGetUserByID(ctx, r.db, viewer)
	if errors.Is(err, pgx.ErrNoRows) {
		return User{}, ErrNotFound
	}
	if err != nil {
		return User{}, fmt.Errorf("read profile: %w", err)
	}
	return r.userOf(dbsqlc.ProfileGetUserRow(u)), nil
}
