package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/sessions"
)

// Engagement is what people do to the sessions of others.
type Engagement interface {
	Kudos(ctx context.Context, userID, sessionID uuid.UUID, give bool) (engagement.Given, error)
	Share(ctx context.Context, sessionID uuid.UUID) (recorded bool, err error)
	Comment(ctx context.Context, userID, sessionID uuid.UUID, body string) (engagement.Comment, int64, error)
	DeleteComment(ctx context.Context, userID, id uuid.UUID) error
	// Comments lists a session's comments; the viewer is uuid.Nil for who is not signed in.
	Comments(ctx context.Context, viewer, sessionID uuid.UUID, after *engagement.Cursor, limit int) (engagement.Page, error)
}

const (
	// maxCommentBytes is far more than the longest comment needs, however its characters are escaped.
	maxCommentBytes = 128 << 10
	// defaultComments is the length of a page.
	defaultComments = 20
)

// PutKudos gives the user's kudos to a session.
func (h *handlers) PutKudos(c echo.Context, rawID string) error { return h.kudos(c, rawID, true) }

// DeleteKudos takes them back.
func (h *handlers) DeleteKudos(c echo.Context, rawID string) error { return h.kudos(c, rawID, false) }

func (h *handlers) kudos(c echo.Context, rawID string, give bool) error {
	grant, id, err := h.admitWrite(c, rawID)
	if err != nil {
		return err
	}
	given, err := h.Engaged.Kudos(c.Request().Context(), grant.UserID, id, give)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, api.Kudos{SessionID: given.SessionID, Given: given.Given, Kudos: given.Kudos})
}

// PostShare counts a share of a session.
func (h *handlers) PostShare(c echo.Context, rawID string) error {
	_, id, err := h.admitWrite(c, rawID)
	if err != nil {
		return err
	}
	recorded, err := h.Engaged.Share(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, api.ShareAnswer{Recorded: recorded})
}

// ListComments answers one page of a session's comments.
func (h *handlers) ListComments(c echo.Context, rawID string, params api.ListCommentsParams) error {
	grant, err := h.admitViewer(c, privacy.List)
	if err != nil {
		return err
	}
	id, err := sessions.ParseID(rawID)
	if err != nil {
		return err
	}
	var after *engagement.Cursor
	if raw := value(params.Cursor); raw != "" {
		cursor, err := engagement.ParseCursor(raw)
		if err != nil {
			return err
		}
		after = &cursor
	}
	page, err := h.Engaged.Comments(c.Request().Context(), grant.UserID, id, after, limitOf(params.Limit, defaultComments))
	if err != nil {
		return err
	}
	out := api.CommentPage{SessionID: page.SessionID, Total: page.Total, Comments: make([]api.Comment, 0, len(page.Comments))}
	for i := range page.Comments {
		out.Comments = append(out.Comments, comment(&page.Comments[i]))
	}
	if page.Next != nil {
		next := page.Next.String()
		out.NextCursor = &next
	}
	return writeJSON(c, http.StatusOK, out)
}

// PostComment stores a comment.
func (h *handlers) PostComment(c echo.Context, rawID string) error {
	grant, id, err := h.admitWrite(c, rawID)
	if err != nil {
		return err
	}
	body, err := readComment(http.MaxBytesReader(c.Response(), c.Request().Body, maxCommentBytes))
	if err != nil {
		return err
	}
	made, total, err := h.Engaged.Comment(c.Request().Context(), grant.UserID, id, body)
	if errors.Is(err, engagement.ErrBadBody) {
		return invalid("body", "want 1 to 2000 characters")
	}
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusCreated, api.CommentAnswer{Comment: comment(&made), Comments: total})
}

// DeleteComment deletes a comment.
func (h *handlers) DeleteComment(c echo.Context, rawID string) error {
	grant, id, err := h.admitWrite(c, rawID)
	if err != nil {
		return err
	}
	if err := h.Engaged.DeleteComment(c.Request().Context(), grant.UserID, id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// admitWrite lets in who may change something, and reads what is to be changed.
func (h *handlers) admitWrite(c echo.Context, rawID string) (admission.Grant, uuid.UUID, error) {
	grant, err := h.admit(c, admission.ScopeWrite)
	if err != nil {
		return grant, uuid.Nil, err
	}
	id, err := sessions.ParseID(rawID)
	return grant, id, err
}

// readComment reads the body of a comment's request.
func readComment(r io.Reader) (string, error) {
	fields, err := readObject(r)
	if err != nil {
		return "", err
	}
	var text *string // null is no text
	if json.Unmarshal(fields["body"], &text) != nil || text == nil {
		return "", invalid("body", "want a string")
	}
	return *text, nil
}

// comment is a comment as it goes over the wire.
func comment(m *engagement.Comment) api.Comment {
	return api.Comment{
		ID:        m.ID,
		Author:    api.Author{Handle: m.Handle, AvatarURL: m.AvatarURL},
		Body:      m.Body,
		CreatedAt: api.Instant(m.CreatedAt),
	}
}
