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
	var days *profile.Days
	if value(params.Year)+value(params.From)+value(params.To) != "" {
		asked, err := heatmapDays(params)
		if err != nil {
			return err
		}
		days = &asked
	}
	m, err := h.Profiles.Heatmap(c.Request().Context(), grant.UserID, handle, days)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, heatmapAnswer(&m))
}

// heatmapDays is the stretch that the parameters name: a year, or a first and a last day.
func heatmapDays(p api.GetHeatmapParams) (days profile.Days, err error) {
	from, to := value(p.From), value(p.To)
	if year := value(p.Year); year != "" {
		n, err := strconv.Atoi(year)
		switch {
		case from != "" || to != "":
			return days, invalid("year", "does not go together with from and to")
		case err != nil || n < 1970 || n > 9999:
			return days, invalid("year", "want a year from 1970 on")
		}
		return profile.Days{From: calendar.Date(n, time.January, 1), To: calendar.Date(n, time.December, 31)}, nil
	}
	if days.From, err = heatmapDay("from", from); err != nil {
		return days, err
	}
	days.To, err = heatmapDay("to", to)
	return days, err
}

func heatmapDay(name, raw string) (calendar.Day, error) {
	day, err := calendar.ParseDay(raw)
	if err != nil || day < 0 {
		return 0, invalid(name, "want from and to, dates YYYY-MM-DD from 1970-01-01 on")
	}
	return day, nil
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
