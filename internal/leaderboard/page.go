package leaderboard

import (
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/zones"
)

// MaxLimit is the largest page. Scripts rely on it being small.
const MaxLimit = 100

// Query says which part of a board is wanted.
type Query struct {
	Limit  int       // entries, moved into 1 to MaxLimit
	Cursor string    // NextCursor of the page before; "" for the first page
	Around uuid.UUID // when set, the page that has this user in the middle; Cursor is ignored
	Me     uuid.UUID // when set, this user's own entry comes along; Around implies it
}

// Page is a part of a board, most seconds first.
type Page struct {
	Board Board
	// UpdatedAt is the last time the board took a publication. For a page from Postgres it is the time of the request:
	// such a page shows the totals themselves, as they are then.
	UpdatedAt  time.Time
	Entries    []Entry
	NextCursor *string // nil at the end of the board
	Me         *Entry  // nil when nobody asked or the user has no place on the board
}

// Entry is one user's place on a board.
type Entry struct {
	UserID     uuid.UUID
	Handle     string
	AvatarURL  *string
	Seconds    int64
	Rank       int64   // one more than the number of users with more seconds
	TopLang    *string // key of a language that has boards
	StreakDays int64
	Delta      *int64 // rank in the span before less Rank; nil when absent then, and for all time
}

// standing is an entry as it is stored, with the rank it was found at.
type standing struct {
	place
	version int64
	facts   Facts
	rank    int64
}

// slice is a stretch of a board before it is dressed up as a Page.
type slice struct {
	updatedAt time.Time
	rows      []standing
	next      *place // of the row that follows them, nil at the end of the board
	me        *standing
}

// setRanks gives each row of a stretch its rank. start is the number of places before the first row; above is the number
// of users with more seconds than it has.
func setRanks(rows []standing, start, above int64) {
	for i := range rows {
		switch {
		case i == 0:
			rows[i].rank = above + 1
		case rows[i].seconds == rows[i-1].seconds:
			rows[i].rank = rows[i-1].rank
		default:
			rows[i].rank = start + int64(i) + 1
		}
	}
}

// window decides what an around page shows, given how many rows there are before and after the user (each counted up to
// limit-1): how many of them to take. The user stands in the middle unless an end of the board is near.
func window(limit, before, after int) (takeBefore, takeAfter int) {
	takeBefore = min(before, limit/2)
	takeAfter = min(after, limit-1-takeBefore)
	takeBefore = min(before, limit-1-takeAfter)
	return takeBefore, takeAfter
}

func (s *standing) entry(now time.Time) Entry {
	f := &s.facts
	return Entry{
		UserID: s.user, Handle: f.Handle, AvatarURL: orNil(f.AvatarURL), Seconds: s.seconds, Rank: s.rank,
		TopLang: orNil(f.TopLang), StreakDays: calendar.StreakDays(f.StreakFirst, f.StreakLast, zones.DayAt(now, f.Zone)),
	}
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// page dresses a stretch; deltas come later.
func (s *slice) page(b Board, now time.Time) Page {
	p := Page{Board: b, UpdatedAt: s.updatedAt, Entries: make([]Entry, len(s.rows))}
	for i := range s.rows {
		p.Entries[i] = s.rows[i].entry(now)
	}
	if s.next != nil && len(s.rows) > 0 {
		cursor := between(s.rows[len(s.rows)-1].place, *s.next).cursor()
		p.NextCursor = &cursor
	}
	if s.me != nil {
		me := s.me.entry(now)
		p.Me = &me
	}
	return p
}
