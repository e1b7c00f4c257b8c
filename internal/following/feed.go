package following

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/sessions"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Entry is a finalized session of somebody whom the reader follows.
type Entry struct {
	Session sessions.Session
	By      Person
}

// Page is a stretch of a feed, newest first.
type Page struct {
	Entries []Entry
	Next    *sessions.Cursor // where the next page starts; nil at the end
}

// Feed returns up to limit sessions of those whom a user follows: those after the cursor, or the newest ones when it is nil.
// Equal starts are ordered by id, largest first. Nobody on off is in it.
func (s *Service) Feed(ctx context.Context, userID uuid.UUID, after *sessions.Cursor, limit int) (Page, error) {
	if after == nil {
		after = &sessions.Newest
	}
	rows, err := s.q.FollowListSessions(ctx, s.db, dbsqlc.FollowListSessionsParams{
		UserID: userID, BeforeAt: after.StartedAt, BeforeID: after.ID, MaxRows: int32(limit) + 1,
	})
	if err != nil {
		return Page{}, fmt.Errorf("read feed: %w", err)
	}
	p := Page{Entries: make([]Entry, 0, len(rows))}
	for i := range rows[:min(len(rows), limit)] {
		// The statement says the same; what it does not know of a mode that is to come is hidden here.
		if r := &rows[i]; !privacy.Hides(userID, r.UserID, r.Privacy, privacy.Feed) {
			p.Entries = append(p.Entries, entry(userID, r))
		}
	}
	// The cursor is the last session of this page, not the first of the next: that one may be absorbed by then.
	if len(rows) > limit {
		last := &rows[limit-1]
		p.Next = &sessions.Cursor{StartedAt: last.StartedAt.UTC(), ID: last.ID}
	}
	return p, nil
}

func entry(viewer uuid.UUID, r *dbsqlc.FollowListSessionsRow) Entry {
	access := privacy.See(privacy.ViewerOf(viewer, r.UserID), r.Privacy, privacy.Detail)
	return Entry{
		Session: sessions.Session{
			ID: r.ID, StartedAt: r.StartedAt.UTC(), EndedAt: r.EndedAt.UTC(), Keystrokes: r.Keystrokes, Lines: r.Lines,
			TopLang: sessions.ShownLang(access, r.TopLang),
			Counts:  sessions.Counts{Views: r.Views, Shares: r.Shares, Kudos: r.Kudos, Comments: r.Comments},
		},
		By: Person{Handle: r.Handle, AvatarURL: r.AvatarUrl},
	}
}
