package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/views"
)

// Views counts looks at pages. It waits shortly and never fails.
type Views interface {
	Record(ctx context.Context, v views.Viewer, t views.Target) (recorded bool)
}

// ViewDays tells owners how often their pages were looked at.
type ViewDays interface {
	Days(ctx context.Context, userID uuid.UUID, days int) ([]views.Day, error)
}

// headerRecorded says whether a look counted. A page is the same whether it did or not.
const headerRecorded = "X-View-Recorded"

// maxViewBytes is far more than a target needs.
const maxViewBytes = 4 << 10

// How many days ListViews tells of by default.
const defaultViewDays = 30

// RecordView counts a look at a page that is rendered elsewhere, if the viewer may see that page.
func (h *handlers) RecordView(c echo.Context) error {
	grant, err := h.admitAnyone(c, admission.ScopeWrite)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, cachePrivate)
	page, err := readViewRequest(http.MaxBytesReader(c.Response(), c.Request().Body, maxViewBytes))
	if err != nil {
		return err
	}
	target, err := h.viewTarget(c.Request().Context(), grant.UserID, page)
	if err != nil {
		return err
	}
	recorded := h.Views.Record(c.Request().Context(), viewerOf(c, grant.UserID), target)
	return writeJSON(c, http.StatusOK, api.ViewAnswer{Recorded: recorded})
}

// readViewRequest reads which page was looked at. Other fields are passed over.
func readViewRequest(r io.Reader) (string, error) {
	body, err := io.ReadAll(r)
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return "", err
	}
	if err != nil {
		return "", unread(err)
	}
	var request struct {
		Target *string `json:"target"`
	}
	if json.Unmarshal(body, &request) != nil || request.Target == nil {
		return "", invalidTarget()
	}
	return *request.Target, nil
}

func invalidTarget() error { return invalid("target", "want profile:HANDLE or session:ID") }

// viewTarget finds the page that a request names, as far as the viewer may see it.
func (h *handlers) viewTarget(ctx context.Context, viewer uuid.UUID, page string) (views.Target, error) {
	kind, name, _ := strings.Cut(page, ":")
	switch kind {
	case "profile":
		u, err := h.Profiles.User(ctx, viewer, name)
		return views.Target{Owner: u.ID}, err
	case "session":
		id, err := sessions.ParseID(name)
		if err != nil {
			return views.Target{}, err
		}
		ref, err := h.Sessions.Find(ctx, viewer, id)
		return views.Target{Owner: ref.Owner, Session: ref.ID}, err
	}
	return views.Target{}, invalidTarget()
}

func viewerOf(c echo.Context, userID uuid.UUID) views.Viewer {
	return views.Viewer{User: userID, Addr: address(c), Agent: c.Request().UserAgent()}
}

// countView counts a look at a page while the page is read. The function it returns waits for that, and puts into the header
// whether it counted; for the owner it does nothing.
func (h *handlers) countView(c echo.Context, viewer uuid.UUID, t views.Target) (wait func()) {
	if viewer == t.Owner {
		return func() {}
	}
	ctx, v, recorded := c.Request().Context(), viewerOf(c, viewer), false
	done := beside(func() { recorded = h.Views.Record(ctx, v, t) })
	return func() {
		done()
		c.Response().Header().Set(headerRecorded, strconv.FormatBool(recorded))
	}
}

// beside runs fn while its caller goes on. The caller must call wait, which also passes a panic on to where it is answered.
func beside(fn func()) (wait func()) {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		fn()
	}()
	return func() {
		if v := <-done; v != nil {
			panic(v)
		}
	}
}

// ListViews answers how often the signed-in user's pages were looked at.
func (h *handlers) ListViews(c echo.Context, params api.ListViewsParams) error {
	grant, err := h.admit(c, admission.ScopeRead)
	if err != nil {
		return err
	}
	days, err := h.ViewDays.Days(c.Request().Context(), grant.UserID, clampOf(params.Days, defaultViewDays, views.MaxDays))
	if err != nil {
		return err
	}
	out := api.ViewDays{Days: make([]api.ViewDay, len(days))}
	for i, d := range days {
		out.Days[i] = api.ViewDay{Date: d.Date, Profile: d.Profile, Sessions: d.Sessions}
	}
	return writeJSON(c, http.StatusOK, out)
}
