package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/following"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/sessions"
)

// Following keeps who follows whom, and reads what those have done whom a user follows.
type Following interface {
	Follow(ctx context.Context, userID uuid.UUID, handle string) error
	Unfollow(ctx context.Context, userID uuid.UUID, handle string) error
	List(ctx context.Context, userID uuid.UUID) ([]following.Followed, error)
	// Circle is the user and whom the user follows, in whatever mode: a board decides by the mode that it reads.
	Circle(ctx context.Context, userID uuid.UUID) ([]uuid.UUID, error)
	Feed(ctx context.Context, userID uuid.UUID, after *sessions.Cursor, limit int) (following.Page, error)
}

// The lengths of a feed's page, as on the published server.
const (
	defaultFeed = 20
	maxFeed     = 50
)

// FollowUser has the user follow somebody.
func (h *handlers) FollowUser(c echo.Context, handle string) error {
	return h.follow(c, handle, h.Following.Follow)
}

// FollowUserByPost is FollowUser, for clients of the published server.
func (h *handlers) FollowUserByPost(c echo.Context, handle string) error {
	return h.follow(c, handle, h.Following.Follow)
}

// UnfollowUser has the user follow somebody no longer.
func (h *handlers) UnfollowUser(c echo.Context, handle string) error {
	return h.follow(c, handle, h.Following.Unfollow)
}

func (h *handlers) follow(c echo.Context, handle string, change func(ctx context.Context, userID uuid.UUID, handle string) error) error {
	grant, err := h.admit(c, admission.ScopeWrite)
	if err != nil {
		return err
	}
	if err := change(c.Request().Context(), grant.UserID, handle); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// ListFollowing answers whom the user follows.
func (h *handlers) ListFollowing(c echo.Context) error {
	grant, err := h.admit(c, admission.ScopeRead)
	if err != nil {
		return err
	}
	list, err := h.Following.List(c.Request().Context(), grant.UserID)
	if err != nil {
		return err
	}
	out := api.Following{Users: make([]api.Followed, len(list))}
	for i := range list {
		f := &list[i]
		out.Users[i] = api.Followed{Handle: f.Handle, AvatarURL: f.AvatarURL, FollowedAt: api.Instant(f.At)}
	}
	return writeJSON(c, http.StatusOK, out)
}

// GetFeed answers one page of what those have done whom the user follows.
func (h *handlers) GetFeed(c echo.Context, params api.GetFeedParams) error {
	grant, err := h.admit(c, admission.ScopeRead)
	if err != nil {
		return err
	}
	after, err := sessionCursor(params.Cursor)
	if err != nil {
		return err
	}
	page, err := h.Following.Feed(c.Request().Context(), grant.UserID, after, clampOf(params.Limit, defaultFeed, maxFeed))
	if err != nil {
		return err
	}
	out := api.FeedPage{Entries: make([]api.FeedEntry, len(page.Entries))}
	for i := range page.Entries {
		e := &page.Entries[i]
		out.Entries[i] = api.FeedEntry{
			Session: sessionSummary(&e.Session), User: api.Author{Handle: e.By.Handle, AvatarURL: e.By.AvatarURL},
		}
	}
	if page.Next != nil {
		next := page.Next.String()
		out.NextCursor = &next
	}
	return writeJSON(c, http.StatusOK, out)
}
