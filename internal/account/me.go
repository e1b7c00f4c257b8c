package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/zones"
)

// rejectionDays is how many days back refused events are shown.
const rejectionDays = 7

// Facts are what a user is told about himself.
type Facts struct {
	ID         uuid.UUID
	Handle     string
	AvatarURL  *string
	Email      *string
	RecapMail  bool // the user asked for a mail each week
	Mode       activity.Mode
	Zone       string // as it was given
	CreatedAt  time.Time
	Streak     Streak
	Rejections map[string]int64 // events refused in the last 7 days, by reason; empty when there are none
}

// Streak are a user's runs of active days, in days of the user's zone.
type Streak struct {
	CurrentDays    int64 // 0 unless the latest run reached today or yesterday
	LongestDays    int64
	LastActiveDate *calendar.Day // nil for a user who never was active
}

// Me reads a user's facts. It fails with ErrUnknownUser.
func (s *Service) Me(ctx context.Context, userID uuid.UUID) (Facts, error) {
	q := dbsqlc.New()
	u, err := q.UserGet(ctx, s.deps.DB, userID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Facts{}, ErrUnknownUser
	}
	if err != nil {
		return Facts{}, fmt.Errorf("read user: %w", err)
	}
	rejected, err := q.UserGetRejections(ctx, s.deps.DB, userID, rejectionDays)
	if err != nil {
		return Facts{}, fmt.Errorf("read rejections: %w", err)
	}
	f := Facts{
		ID: u.ID, Handle: u.Handle, AvatarURL: u.AvatarUrl, Email: u.Email, RecapMail: u.RecapMail, Mode: u.Privacy, Zone: u.Zone, CreatedAt: u.CreatedAt,
		Streak: Streak{
			CurrentDays:    calendar.StreakDays(u.StreakFirstOn, u.StreakLastOn, zones.DayAt(s.deps.Clock.Now(), u.Zone)),
			LongestDays:    u.LongestStreakDays,
			LastActiveDate: u.StreakLastOn,
		},
		Rejections: make(map[string]int64, len(rejected)),
	}
	for _, r := range rejected {
		f.Rejections[r.Reason] = r.Count
	}
	return f, nil
}
