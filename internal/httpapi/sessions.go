package httpapi

import (
	"context"
	"math"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/views"
)

// Sessions reads finalized sessions as a viewer may see them. A viewer who is anonymous is uuid.Nil.
type Sessions interface {
	List(ctx context.Context, viewer, userID uuid.UUID, after *sessions.Cursor, limit int) (sessions.Page, error)
	// Find says whose session an id leads to now. What is shown of it is for Get to decide.
	Find(ctx context.Context, viewer, id uuid.UUID) (sessions.Ref, error)
	// Get reads one, as far as the viewer may see it.
	Get(ctx context.Context, viewer, id uuid.UUID) (*sessions.Detail, error)
}

// defaultSessions is the published server's page length.
const defaultSessions = 20

// ListSessions answers one page of the user's sessions.
func (h *handlers) ListSessions(c echo.Context, params api.ListSessionsParams) error {
	grant, err := h.admit(c, admission.ScopeRead)
	if err != nil {
		return err
	}
	return h.answerSessions(c, grant.UserID, grant.UserID, params.Cursor, params.Limit)
}

// ListUserSessions answers one page of a user's sessions to whoever may see them.
func (h *handlers) ListUserSessions(c echo.Context, handle string, params api.ListUserSessionsParams) error {
	grant, err := h.admitViewer(c, privacy.List)
	if err != nil {
		return err
	}
	u, err := h.Profiles.User(c.Request().Context(), grant.UserID, handle)
	if err != nil {
		return err
	}
	return h.answerSessions(c, grant.UserID, u.ID, params.Cursor, params.Limit)
}

func (h *handlers) answerSessions(c echo.Context, viewer, userID uuid.UUID, rawCursor, rawLimit *string) error {
	after, err := sessionCursor(rawCursor)
	if err != nil {
		return err
	}
	page, err := h.Sessions.List(c.Request().Context(), viewer, userID, after, limitOf(rawLimit, defaultSessions))
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, sessionPage(&page))
}

// sessionCursor is where a page of sessions begins: nil without a parameter.
func sessionCursor(raw *string) (*sessions.Cursor, error) {
	if value(raw) == "" {
		return nil, nil //nolint:nilnil // the newest ones
	}
	cursor, err := sessions.ParseCursor(*raw)
	return &cursor, err
}

// GetSession answers a session to whoever may see it. What is not a session's id is answered like an id of a session that
// is hidden, so that neither can be told from one that does not exist. The view is counted while the session is read.
func (h *handlers) GetSession(c echo.Context, rawID string) error {
	grant, err := h.admitViewer(c, privacy.Detail)
	if err != nil {
		return err
	}
	id, err := sessions.ParseID(rawID)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	ref, err := h.Sessions.Find(ctx, grant.UserID, id)
	if err != nil {
		return err
	}
	counted := h.countView(c, grant.UserID, views.Target{Owner: ref.Owner, Session: ref.ID})
	detail, err := h.Sessions.Get(ctx, grant.UserID, ref.ID)
	counted()
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, sessionDetail(detail))
}

// DeleteSession deletes one of the user's sessions.
func (h *handlers) DeleteSession(c echo.Context, rawID string) error {
	grant, err := h.admit(c, admission.ScopeWrite)
	if err != nil {
		return err
	}
	id, err := sessions.ParseID(rawID)
	if err != nil {
		return err
	}
	if err := h.Accounts.DeleteSession(c.Request().Context(), grant.UserID, id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// sessionPage is a page as it goes over the wire: an empty one is an empty list, not null.
func sessionPage(p *sessions.Page) api.SessionPage {
	out := api.SessionPage{Sessions: make([]api.SessionSummary, 0, len(p.Sessions))}
	for i := range p.Sessions {
		out.Sessions = append(out.Sessions, sessionSummary(&p.Sessions[i]))
	}
	if p.Next != nil {
		next := p.Next.String()
		out.NextCursor = &next
	}
	return out
}

// sessionSummary is a session in short.
func sessionSummary(s *sessions.Session) api.SessionSummary {
	return api.SessionSummary{
		ID:         s.ID,
		StartedAt:  api.Instant(s.StartedAt),
		EndedAt:    api.Instant(s.EndedAt),
		DurationS:  s.Duration(),
		LinesDelta: s.Lines,
		PaceCpm:    s.Pace(),
		TopLang:    displayName(s.TopLang),
		Views:      s.Counts.Views,
		Shares:     s.Counts.Shares,
		Kudos:      s.Counts.Kudos,
		Comments:   s.Counts.Comments,
	}
}

// sessionDetail is a session as it goes over the wire. Details that are not kept look like details that never were: no
// files, no heatmap.
func sessionDetail(d *sessions.Detail) api.SessionDetail {
	out := api.SessionDetail{
		ID:              d.ID,
		StartedAt:       api.Instant(d.StartedAt),
		EndedAt:         api.Instant(d.EndedAt),
		DurationS:       d.Duration(),
		LinesDelta:      d.Lines,
		PaceCpm:         d.Pace(),
		PeakCpm:         d.PeakCPM,
		PeakAt:          api.Instant(d.PeakAt),
		Langs:           make([]api.SessionLanguage, 0, len(d.Langs)+1),
		Files:           make([]api.SessionFile, 0, len(d.Files)),
		KeyboardHeatmap: keyboardHeatmap(d.KeyCounts),
		Views:           d.Counts.Views,
		Shares:          d.Counts.Shares,
		Kudos:           d.Counts.Kudos,
		Comments:        d.Counts.Comments,
	}
	for _, l := range d.Langs {
		out.Langs = append(out.Langs, sessionLanguage(languages.DisplayName(l.Lang), l.Seconds, d))
	}
	if d.OtherSeconds > 0 { // so that the seconds still add up
		out.Langs = append(out.Langs, sessionLanguage(otherLanguages, d.OtherSeconds, d))
	}
	for _, f := range d.Files {
		out.Files = append(out.Files, api.SessionFile{Path: f.Path, Changes: f.Changes})
	}
	return out
}

// otherLanguages is the name of what is too much to list. No language's key can be it: keys are in lower case.
const otherLanguages = "Other"

func sessionLanguage(name string, seconds int64, d *sessions.Detail) api.SessionLanguage {
	return api.SessionLanguage{Lang: name, DurationS: seconds, Pct: percent(seconds, d.Duration())}
}

// percent is a share of the whole in per cent, rounded to two decimals, for display: rounded shares need not add up to 100,
// the seconds beside them do add up.
func percent(part, whole int64) float64 {
	return math.Round(float64(part)/float64(max(whole, 1))*10_000) / 100
}

// keyboardHeatmap is nil when nothing was pressed or nothing is kept. Counts are 64-bit and so is their sum; shares are of
// all presses, 0 to 1.
func keyboardHeatmap(counts map[string]int64) *api.KeyboardHeatmap {
	var total int64
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return nil
	}
	freq := make(map[string]float64, len(counts))
	for label, n := range counts {
		freq[label] = float64(n) / float64(total)
	}
	return &api.KeyboardHeatmap{Counts: counts, Freq: freq, Total: total}
}

// displayName is how people write a language, and nil for no language at all.
func displayName(key string) *string {
	if key == "" {
		return nil
	}
	name := languages.DisplayName(key)
	return &name
}
