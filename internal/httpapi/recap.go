package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/servicetoken"
)

// Recaps reads weeks in review.
type Recaps interface {
	Own(ctx context.Context, userID uuid.UUID, w recap.Week) (*recap.Recap, error)
	// WalkShown calls each with the recaps of all active users after one, as others may see them, in order of id, and paged now
	// and then between, however few they are.
	WalkShown(ctx context.Context, w recap.Week, after uuid.UUID, each func(*recap.Addressed) error, paged func() error) error
}

// GetRecap answers the signed-in user's week.
func (h *handlers) GetRecap(c echo.Context, params api.GetRecapParams) error {
	grant, err := h.admit(c, admission.ScopeRead)
	if err != nil {
		return err
	}
	week, err := h.weekOf(params.Week)
	if err != nil {
		return err
	}
	r, err := h.Recaps.Own(c.Request().Context(), grant.UserID, week)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, recapAnswer(r))
}

// weekOf is the week that a parameter names, without one that of the present in UTC.
func (h *handlers) weekOf(raw *string) (recap.Week, error) {
	if value(raw) == "" {
		return recap.WeekOf(calendar.DayOf(h.Clock.Now().UTC())), nil
	}
	w, err := recap.ParseWeek(*raw)
	if err != nil {
		return w, invalid("week", err.Error())
	}
	return w, nil
}

// ListRecaps streams the recaps of all active users to a job.
func (h *handlers) ListRecaps(c echo.Context, params api.ListRecapsParams) error {
	token, _ := bearerToken(c.Request().Header)
	c.Response().Header().Set(echo.HeaderCacheControl, cachePrivate)
	req := admission.Request{Token: token, Scope: admission.ScopeRead, Addr: address(c)}
	if err := h.Admission.AdmitService(c.Request().Context(), req, servicetoken.ScopeRecaps); err != nil {
		return err
	}
	week, err := h.weekOf(params.Week)
	if err != nil {
		return err
	}
	after, err := recap.ParseCursor(week, value(params.Cursor))
	if err != nil {
		return err
	}
	return h.streamRecaps(c, week, after)
}

// recapBuffer is how much of a page of recaps is sent at a time, in bytes.
const recapBuffer = 32 << 10

// streamRecaps writes a line per user, and one that says that this was all: whoever does not get that one knows that the
// answer was cut short. Lines are sent off page by page.
func (h *handlers) streamRecaps(c echo.Context, week recap.Week, after uuid.UUID) error {
	return h.stream(c, mimeLines, func(ctx context.Context, w *streamWriter) error {
		lines := bufio.NewWriterSize(w, recapBuffer)
		enc := json.NewEncoder(lines)
		enc.SetEscapeHTML(false)
		var count int64
		err := h.Recaps.WalkShown(ctx, week, after, func(r *recap.Addressed) error {
			count++
			cursor, answer := recap.Cursor(week, r.UserID), recapAnswer(&r.Recap)
			return enc.Encode(api.RecapLine{User: &api.RecapUser{ID: r.UserID, Handle: r.Handle}, Recap: &answer, Cursor: &cursor})
		}, func() error {
			if err := lines.Flush(); err != nil {
				return err
			}
			return w.progress() // there may have been no line
		})
		if err != nil {
			return err
		}
		end := true
		if err := enc.Encode(api.RecapLine{End: &end, Count: &count}); err != nil {
			return err
		}
		return lines.Flush()
	})
}

// recapAnswer is a recap as it goes over the wire.
func recapAnswer(r *recap.Recap) api.Recap {
	out := api.Recap{
		WeekStart:          r.Week.Start(),
		WeekEnd:            r.Week.End(),
		AsOf:               api.Instant(r.AsOf),
		SessionCount:       r.Sessions,
		TotalDurationS:     r.Seconds,
		BestDurationS:      r.BestSeconds,
		TopLang:            displayName(r.TopLang),
		CurrentStreakDays:  r.StreakDays,
		PriorWeekDurationS: r.PriorSeconds,
		WeekOverWeekPct:    r.Change(),
		Rank:               r.Rank,
		PriorWeekRank:      r.PriorRank,
		Delta:              r.RankDelta(),
		Headline:           r.Headline(),
		Note:               r.Note(),
		Languages:          make([]api.SessionLanguage, 0, len(r.Langs)+1),
		Days:               make([]api.RecapDay, 0, len(r.Days)),
	}
	if r.BestID != uuid.Nil {
		out.BestSessionID = &r.BestID
	}
	for _, l := range r.Langs {
		out.Languages = append(out.Languages, recapLanguage(languages.DisplayName(l.Key), l.Seconds, r))
	}
	if r.OtherSeconds > 0 { // so that the seconds still add up
		out.Languages = append(out.Languages, recapLanguage(otherLanguages, r.OtherSeconds, r))
	}
	for _, d := range r.Days {
		out.Days = append(out.Days, api.RecapDay{Date: d.Date, DurationS: d.Seconds, PriorWeekDurationS: d.PriorSeconds})
	}
	return out
}

func recapLanguage(name string, seconds int64, r *recap.Recap) api.SessionLanguage {
	return api.SessionLanguage{Lang: name, DurationS: seconds, Pct: percent(seconds, r.Seconds)}
}
