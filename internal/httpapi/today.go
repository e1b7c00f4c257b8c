package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/httpapi/api"
)

// Today tells what a user has coded on their present day, open sessions included.
type Today interface {
	Today(ctx context.Context, userID uuid.UUID) (aggregate.Today, error)
}

// GetToday answers what the signed-in user has coded today.
func (h *handlers) GetToday(c echo.Context) error {
	grant, err := h.admit(c, admission.ScopeRead)
	if err != nil {
		return err
	}
	t, err := h.Today.Today(c.Request().Context(), grant.UserID)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, api.Today{
		Date: t.Day, Timezone: t.Zone, DurationS: t.Seconds, FinalizedS: t.Finalized, Partial: t.Partial,
	})
}
