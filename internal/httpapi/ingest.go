package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/privacy"
)

// EventStore makes a batch durable. When it returns nil, what it counts as received is committed.
type EventStore interface {
	Store(ctx context.Context, userID uuid.UUID, b *ingest.Batch) (ingest.Stored, error)
}

// IngestEvents takes a batch. The sender is admitted before a byte of the body is read.
func (h *handlers) IngestEvents(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), h.cfg.IngestTimeout)
	defer cancel()
	grant, err := h.admit(c, admission.ScopeIngest)
	if err != nil {
		return err
	}
	body, err := h.readBatch(c.Request())
	if err != nil {
		return err
	}
	batch, err := ingest.Decode(body, h.Clock.Now(), h.cfg.Limits, h.Languages)
	ingest.RecycleBody(body)
	if err != nil {
		return err
	}
	// Before anything else sees them. The cached mode may only strip; what is kept is decided where it is stored.
	privacy.Strip(grant.Mode, batch.Events, batch.Listed)
	readAt := h.Clock.Now()
	stored, err := h.Events.Store(ctx, grant.UserID, batch)
	if err != nil {
		return fmt.Errorf("store batch: %w", err)
	}
	if grant.Mode == "" {
		h.Admission.FillMode(ctx, grant.UserID, privacy.Entry{Mode: stored.Mode, Version: stored.Version}, readAt)
	}
	return writeJSON(c, http.StatusAccepted, ingestAnswer(batch, stored))
}

// readBatch reads a body within the limits of a batch.
func (h *handlers) readBatch(r *http.Request) ([]byte, error) {
	if h.cfg.Limits.TooLarge(r.ContentLength) {
		return nil, ingest.ErrBodyTooLarge
	}
	// Several headers are as good as one list, and a list is refused: nobody compresses twice.
	encoding := strings.Join(r.Header.Values("Content-Encoding"), ", ")
	body, err := ingest.ReadBody(r.Body, encoding, h.cfg.Limits)
	var bad *ingest.BadRequestError
	switch {
	case err == nil, errors.As(err, &bad), errors.Is(err, ingest.ErrBodyTooLarge):
		return body, err
	}
	return nil, unread(err)
}

// ingestAnswer says what became of a batch. What was received is the store's word, since only there the user's mode is
// known for certain; nothing of an off user was, so nothing of it can be a repeat.
func ingestAnswer(b *ingest.Batch, stored ingest.Stored) api.IngestAnswer {
	a := api.IngestAnswer{
		Received:      stored.Received,
		Duplicate:     b.Duplicates,
		Rejected:      make([]api.Rejection, 0, len(b.Rejected)),
		RejectedTotal: b.RejectedTotal,
	}
	if stored.Mode == activity.ModeOff {
		a.Received, a.Duplicate = 0, 0
	}
	for _, r := range b.Rejected {
		out := api.Rejection{Index: r.Index, Reason: string(r.Reason)}
		if r.ID != "" { // null on the wire when there was none to repeat
			out.ID = &r.ID
		}
		a.Rejected = append(a.Rejected, out)
	}
	return a
}
