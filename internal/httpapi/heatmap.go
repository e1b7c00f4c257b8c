package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/profile"
)

// GetHeatmap answers the seconds of a user's days.
func (h *handlers) GetHeatmap(c echo.Context, params api.GetHeatmapParams) error {
	grant, err := h.admitViewer(c, privacy.Heatmap)
	if err != nil {
		return err
	}
	handle := value(params.Handle)
	if handle == "" && grant.UserID == uuid.Nil {
		return &admission.Error{Code: admission.CodeUnauthorized, Message: "a heatmap without a handle needs a token"}
	}
	days, err := heatmapDays(params)
	if err != nil {
		return err
	}
	m, err := h.Profiles.Heatmap(c.Request().Context(), grant.UserID, handle, days)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, heatmapAnswer(&m))
}

// heatmapDays is the stretch that the parameters name, and nil when they name none.
func heatmapDays(p api.GetHeatmapParams) (*profile.Days, error) {
	year, from, to := value(p.Year), value(p.From), value(p.To)
	switch {
	case year != "" && (from != "" || to != ""):
		return nil, invalid("year", "does not go together with from and to")
	case year != "":
		n, err := strconv.Atoi(year)
		if err != nil || n < 1970 || n > 9999 {
			return nil, invalid("year", "want a year from 1970 on")
		}
		return &profile.Days{From: calendar.Date(n, time.January, 1), To: calendar.Date(n, time.December, 31)}, nil
	case from == "" && to == "":
		return nil, nil
	}
	var days profile.Days
	for _, d := range []struct {
		name, raw string
		to        *calendar.Day
	}{{"from", from, &days.From}, {"to", to, &days.To}} {
		day, err := calendar.ParseDay(d.raw)
		if err != nil || day < 0 {
			return nil, invalid(d.name, "want from and to, dates YYYY-MM-DD from 1970-01-01 on")
		}
		*d.to = day
	}
	return &days, nil
}

// heatmapAnswer is a heatmap as it goes over the wire.
func heatmapAnswer(m *profile.Heatmap) api.Heatmap {
	out := api.Heatmap{
		Handle: m.Handle,
		From:   m.From,
		To:     m.To,
		Streak: api.ProfileStreak{CurrentDays: m.CurrentDays, LongestDays: m.LongestDays},
		Days:   make([]api.HeatmapDay, len(m.Seconds)),
	}
	for i, s := range m.Seconds {
		out.Days[i] = api.HeatmapDay{Date: m.From + calendar.Day(i), DurationS: s}
		out.DurationS += s
	}
	return out
}
