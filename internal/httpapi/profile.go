package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/profile"
	"github.com/commma/commma/internal/views"
)

// Profiles reads users as others see them. A viewer who is anonymous is uuid.Nil.
type Profiles interface {
	User(ctx context.Context, viewer uuid.UUID, handle string) (profile.User, error)
	Stats(ctx context.Context, viewer, userID uuid.UUID) (profile.Stats, error)
	// Heatmap is the viewer's own without a handle, and of the last year without days.
	Heatmap(ctx context.Context, viewer uuid.UUID, handle string, days *profile.Days) (profile.Heatmap, error)
}

// LastSeen tells when a user was last seen; nil when that is not known.
type LastSeen interface {
	At(ctx context.Context, userID uuid.UUID) (*time.Time, error)
}

// GetUser answers a user's profile. The view is counted, and Redis asked for the last visit, while Postgres adds up.
func (h *handlers) GetUser(c echo.Context, handle string) error {
	grant, err := h.admitViewer(c, privacy.Profile)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	u, err := h.Profiles.User(ctx, grant.UserID, handle)
	if err != nil {
		return err
	}
	var seen *time.Time
	var errSeen error
	counted := h.countView(c, grant.UserID, views.Target{Owner: u.ID})
	looked := beside(func() { seen, errSeen = h.LastSeen.At(ctx, u.ID) })
	stats, err := h.Profiles.Stats(ctx, grant.UserID, u.ID)
	counted()
	looked()
	if err != nil {
		return err
	}
	if errSeen != nil {
		return errSeen
	}
	return writeJSON(c, http.StatusOK, profileAnswer(&u, &stats, seen))
}

// profileAnswer is a profile as it goes over the wire. What is not kept is null, false or empty.
func profileAnswer(u *profile.User, s *profile.Stats, seen *time.Time) api.Profile {
	out := api.Profile{
		Handle:    u.Handle,
		AvatarURL: u.AvatarURL,
		CreatedAt: api.Instant(u.CreatedAt),
		Streak:    api.ProfileStreak{CurrentDays: u.CurrentDays, LongestDays: u.LongestDays},
		Stats:     api.ProfileStats{TotalSessions: s.Sessions, TotalDurationS: s.Seconds, TopLang: displayName(s.TopLang)},
		Badges:    []api.Badge{},
		Views:     s.Views,
	}
	if seen != nil {
		at := api.Instant(*seen)
		out.LastSeenAt = &at
	}
	return out
}
