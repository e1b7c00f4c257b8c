package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Reader reads sessions from Postgres. It is safe for concurrent use.
type Reader struct {
	db dbsqlc.DBTX
	q  *dbsqlc.Queries
}

// NewReader makes a Reader over a pool.
func NewReader(db dbsqlc.DBTX) *Reader { return &Reader{db: db, q: dbsqlc.New()} }

// Newest stands before every session, so that the first page is read like all others and walks the same index.
var Newest = Cursor{StartedAt: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), ID: uuid.Max}

// List returns up to limit of the user's sessions, newest first, as far as the viewer may see them by the mode that is read
// with them; uuid.Nil is an anonymous one: those after the cursor, or the newest ones when it is nil. Equal starts are ordered
// by id, largest first. Errors: ErrNotFound.
func (r *Reader) List(ctx context.Context, viewer, userID uuid.UUID, after *Cursor, limit int) (Page, error) {
	if after == nil {
		after = &Newest
	}
	rows, err := r.q.SessionListBefore(ctx, r.db, dbsqlc.SessionListBeforeParams{
		UserID:   userID,
		BeforeAt: after.StartedAt,
		BeforeID: after.ID,
		MaxRows:  int32(limit) + 1,
	})
	if err != nil {
		return Page{}, fmt.Errorf("list sessions: %w", err)
	}
	p := Page{Sessions: make([]Session, 0, len(rows))}
	if len(rows) > 0 && privacy.Hides(viewer, userID, rows[0].Privacy, privacy.List) {
		return Page{}, ErrNotFound
	}
	for _, row := range rows[:min(len(rows), limit)] {
		access := privacy.See(privacy.ViewerOf(viewer, userID), row.Privacy, privacy.Detail)
		p.Sessions = append(p.Sessions, Session{
			ID:         row.ID,
			StartedAt:  row.StartedAt.UTC(),
			EndedAt:    row.EndedAt.UTC(),
			Keystrokes: row.Keystrokes,
			Lines:      row.Lines,
			TopLang:    ShownLang(access, row.TopLang),
			Counts:     Counts{Views: row.Views, Shares: row.Shares, Kudos: row.Kudos, Comments: row.Comments},
		})
	}
	// The cursor is the last session that is shown, not the first that is not: that one may be absorbed by then.
	if len(rows) > limit {
		last := p.Sessions[limit-1]
		p.Next = &Cursor{StartedAt: last.StartedAt, ID: last.ID}
	}
	return p, nil
}

// Find says whose session the id leads to, if viewer may see it; viewer is uuid.Nil for an anonymous one. The id of a session
// that was absorbed leads to its heir. Errors: ErrNotFound.
func (r *Reader) Find(ctx context.Context, viewer, id uuid.UUID) (Ref, error) {
	row, err := r.q.SessionGetOwner(ctx, r.db, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Ref{}, ErrNotFound
	}
	if err != nil {
		return Ref{}, fmt.Errorf("find session: %w", err)
	}
	if privacy.Hides(viewer, row.UserID, row.Privacy, privacy.Detail) {
		return Ref{}, ErrNotFound
	}
	return Ref{Owner: row.UserID, ID: row.ID}, nil
}

// Get returns a session in full, as far as the viewer may see it by the mode that is read with it; uuid.Nil is an anonymous
// one. The id of a session that was absorbed leads to its heir, which is returned under the heir's own id. Errors: ErrNotFound.
func (r *Reader) Get(ctx context.Context, viewer, id uuid.UUID) (*Detail, error) {
	row, err := r.q.SessionGetDetail(ctx, r.db, MaxLangs, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get session: %w", err)
	}
	access := privacy.See(privacy.ViewerOf(viewer, row.UserID), row.Privacy, privacy.Detail)
	switch access {
	case privacy.Hidden:
		return nil, ErrNotFound // as absent as one that never was
	case privacy.WithoutPaths:
		row.Files, row.KeyCounts = nil, nil
	}
	d := &Detail{
		Session: Session{
			ID:         row.ID,
			StartedAt:  row.StartedAt.UTC(),
			EndedAt:    row.EndedAt.UTC(),
			Keystrokes: row.Keystrokes,
			Lines:      row.Lines,
			TopLang:    row.TopLang,
			Counts:     Counts{Views: row.Views, Shares: row.Shares, Kudos: row.Kudos, Comments: row.Comments},
		},
		PeakCPM:      row.PeakCpm,
		PeakAt:       row.PeakAt.UTC(),
		OtherSeconds: row.OtherSeconds,
	}
	if err := d.readJSON(row); err != nil {
		return nil, err
	}
	if access == privacy.WithoutPaths {
		d.hideUnlisted()
	}
	return d, nil
}

// hideUnlisted takes out the names of languages that are not listed: they can be anything, and whose owner left full keeps no
// new ones. Their seconds stay, among the other languages'.
func (d *Detail) hideUnlisted() {
	shown := d.Langs[:0]
	for _, l := range d.Langs {
		if l.Lang == languages.Unknown || languages.Listed(l.Lang) {
			shown = append(shown, l)
		} else {
			d.OtherSeconds += l.Seconds
		}
	}
	d.Langs = shown
	d.TopLang = ShownLang(privacy.WithoutPaths, d.TopLang)
}

// ShownLang is the key of a session's top language as it is shown to who has this access to the session in full: names that are
// not listed are free text, and for those to whom its paths would be shown.
func ShownLang(a privacy.Access, lang string) string {
	if a == privacy.WithPaths || languages.Listed(lang) {
		return lang
	}
	return languages.Unknown
}

// readJSON fills in what is stored as JSON. Its errors do not quote what was read, which can be paths.
func (d *Detail) readJSON(row dbsqlc.SessionGetDetailRow) error {
	var seconds map[string]int64
	for _, part := range []struct {
		what string
		raw  []byte
		into any
	}{
		{"languages", row.Langs, &seconds},
		{"files", row.Files, &d.Files},
		{"key counts", row.KeyCounts, &d.KeyCounts},
	} {
		if part.raw == nil { // NULL: the session has none, or the user does not keep any
			continue
		}
		if json.Unmarshal(part.raw, part.into) != nil {
			return fmt.Errorf("get session: read %s: not in the stored form", part.what)
		}
	}
	d.Langs = orderLangs(seconds)
	return nil
}
