package engagement

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// Comment is one comment on a session.
type Comment struct {
	ID        uuid.UUID
	Handle    string // the author's
	AvatarURL *string
	Body      string // plain text: whoever shows it must escape it
	CreatedAt time.Time
}

// Page is a stretch of a session's comments, oldest first.
type Page struct {
	SessionID uuid.UUID // the session's own id; not the one asked for when that one was absorbed
	Comments  []Comment
	Total     int64   // of the session, whether it shows them yet or not
	Next      *Cursor // where the next page starts; nil at the end
}

// Cursor is a place among comments: right after the one with this instant and id. It stays good when the session is merged.
type Cursor struct {
	At time.Time // to the microsecond
	ID uuid.UUID
}

// String is base64url without padding of <microseconds since the epoch>|<comment id>.
func (c Cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.At.UnixMicro(), 10) + "|" + c.ID.String()))
}

// ParseCursor reads what String wrote; whatever else it is given is ErrBadCursor.
func ParseCursor(s string) (Cursor, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return Cursor{}, ErrBadCursor
	}
	at, id, ok := strings.Cut(string(raw), "|")
	if !ok || len(id) != 36 || len(at) > 16 { // within what Postgres takes for an instant
		return Cursor{}, ErrBadCursor
	}
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return Cursor{}, ErrBadCursor
	}
	c := Cursor{At: time.UnixMicro(micros).UTC()}
	if c.ID, err = uuid.Parse(id); err != nil {
		return Cursor{}, ErrBadCursor
	}
	return c, nil
}

// Comment stores a comment on a session and returns it, with the number of comments that the session has now. It fails with
// ErrBadBody, ErrNotFound (also when somebody else owns the session and is on off), ErrOff or ErrBusy.
func (s *Service) Comment(ctx context.Context, userID, sessionID uuid.UUID, body string) (Comment, int64, error) {
	body, err := cleanBody(body)
	if err != nil {
		return Comment{}, 0, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return Comment{}, 0, fmt.Errorf("make comment id: %w", err)
	}
	args := dbsqlc.EngagementCommentParams{ID: id, AuthorID: userID, SessionID: sessionID, Body: body}
	var row dbsqlc.EngagementCommentRow
	err = s.change(ctx, userID, func(ctx context.Context, tx pgx.Tx) (err error) {
		if row, err = s.q.EngagementComment(ctx, tx, args); err == nil && row.Vanished {
			return errVanished
		}
		return err
	})
	switch {
	case err != nil:
		return Comment{}, 0, fmt.Errorf("store comment: %w", err)
	case row.AuthorOff && (row.Own || !row.OwnerOff):
		return Comment{}, 0, ErrOff
	case row.OwnerOff:
		return Comment{}, 0, ErrNotFound
	}
	s.arms.Arm(ctx, row.SessionID)
	return Comment{ID: id, Handle: row.Handle, AvatarURL: row.AvatarUrl, Body: body, CreatedAt: row.CreatedAt.UTC()}, row.Comments, nil
}

// DeleteComment deletes a comment of the user's, or one on a session of theirs. It fails with ErrNotFound (also when the
// comment is hidden from the user) or ErrNotYours.
func (s *Service) DeleteComment(ctx context.Context, userID, id uuid.UUID) error {
	row, err := s.q.EngagementDeleteComment(ctx, s.db, userID, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("delete comment: %w", err)
	case !row.Allowed && (hidden(userID, row.OwnerID, row.OwnerPrivacy) || hidden(userID, row.AuthorID, row.AuthorPrivacy)):
		return ErrNotFound // as absent as one that never was
	case !row.Allowed:
		return ErrNotYours
	case !row.Deleted: // somebody else did, a moment ago
		return ErrNotFound
	}
	s.arms.Arm(ctx, row.SessionID)
	return nil
}

// Comments returns up to limit comments of a session, oldest first: those after the cursor, or the first ones when it is nil.
// Comments of users on off are counted and shown to nobody but themselves. The viewer is uuid.Nil for who is not signed in.
// It fails with ErrNotFound (also when somebody else owns the session and is on off).
func (s *Service) Comments(ctx context.Context, viewer, sessionID uuid.UUID, after *Cursor, limit int) (Page, error) {
	session, err := s.session(ctx, viewer, sessionID)
	if err != nil {
		return Page{}, err
	}
	if after == nil {
		after = &Cursor{At: time.Unix(0, 0)}
	}
	rows, err := s.q.EngagementListComments(ctx, s.db, dbsqlc.EngagementListCommentsParams{
		OwnerID: session.UserID, SessionID: session.ID, AfterAt: after.At, AfterID: after.ID, ViewerID: viewer, MaxRows: int32(limit) + 1,
	})
	if err != nil {
		return Page{}, fmt.Errorf("list comments: %w", err)
	}
	p := Page{SessionID: session.ID, Total: session.Comments, Comments: make([]Comment, 0, len(rows))}
	for _, r := range rows[:min(len(rows), limit)] {
		p.Comments = append(p.Comments, Comment{ID: r.ID, Handle: r.Handle, AvatarURL: r.AvatarUrl, Body: r.Body, CreatedAt: r.CreatedAt.UTC()})
	}
	if len(rows) > limit {
		last := p.Comments[limit-1]
		p.Next = &Cursor{At: last.CreatedAt, ID: last.ID}
	}
	return p, nil
}
