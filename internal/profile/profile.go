// Package profile reads a user as others see them. Its numbers come from the totals, like those of boards and recaps.
package profile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/zones"
)

// ErrNotFound means that there is nobody of this name whom the viewer may see.
var ErrNotFound = errors.New("profile not found")

// User is what a page starts with: enough to know whether it may be shown, and to whom it belongs.
type User struct {
	ID          uuid.UUID
	Handle      string
	AvatarURL   *string
	CreatedAt   time.Time // UTC
	Zone        string    // in force now
	CurrentDays int64     // of the streak, decided now in the user's zone; 0 unless it reached today or yesterday
	LongestDays int64
}

// Stats are the sums of all that a user has done.
type Stats struct {
	Sessions int64  // finalized ones
	Seconds  int64  // in all languages
	TopLang  string // key of the listed language with most seconds; "" for none
	Views    int64  // of the profile, as far as they are flushed
}

// Reader reads profiles from Postgres. It is safe for concurrent use.
type Reader struct {
	db    dbsqlc.DBTX
	clock clock.Clock
	langs []string
}

// NewReader makes a Reader over a pool. languages are the keys that may be shown to everybody.
func NewReader(db dbsqlc.DBTX, c clock.Clock, languages []string) *Reader {
	return &Reader{db: db, clock: c, langs: languages}
}

// User is the user with this handle, whose case counts, as viewer may see them; viewer is uuid.Nil for an anonymous one. It
// fails with ErrNotFound also for a user on off, except to themselves.
func (r *Reader) User(ctx context.Context, viewer uuid.UUID, handle string) (User, error) {
	if !activity.IsHandle(handle) {
		return User{}, ErrNotFound
	}
	u, err := dbsqlc.New().ProfileGetUser(ctx, r.db, handle)
	if errors.Is(err, pgx.ErrNoRows) {
		return User{}, ErrNotFound
	}
	if err != nil {
		return User{}, fmt.Errorf("read profile: %w", err)
	}
	if privacy.Hides(viewer, u.ID, u.Privacy, privacy.Profile) {
		return User{}, ErrNotFound
	}
	return r.userOf(u), nil
}

// userOf decides the streak: by the day that it is now in the user's zone.
func (r *Reader) userOf(u dbsqlc.ProfileGetUserRow) User {
	today := zones.DayAt(r.clock.Now(), u.Zone)
	return User{
		ID: u.ID, Handle: u.Handle, AvatarURL: u.AvatarUrl, CreatedAt: u.CreatedAt.UTC(), Zone: u.Zone,
		CurrentDays: calendar.StreakDays(u.StreakFirstOn, u.StreakLastOn, today),
		LongestDays: u.LongestStreakDays,
	}
}

// Stats are the sums of a user that User has found, as viewer may see them. It decides anew, by the mode that it reads with
// them, and fails with ErrNotFound like User.
func (r *Reader) Stats(ctx context.Context, viewer, userID uuid.UUID) (Stats, error) {
	row, err := dbsqlc.New().ProfileGetStats(ctx, r.db, r.langs, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Stats{}, ErrNotFound
	}
	if err != nil {
		return Stats{}, fmt.Errorf("read sums of a profile: %w", err)
	}
	if privacy.Hides(viewer, userID, row.Privacy, privacy.Profile) {
		return Stats{}, ErrNotFound
	}
	return Stats{Sessions: row.TotalSessions, Seconds: row.TotalSeconds, TopLang: row.TopLang, Views: row.Views}, nil
}
