package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/privacy"
)

// Boards reads pages of leaderboards.
type Boards interface {
	Page(ctx context.Context, now time.Time, b leaderboard.Board, q leaderboard.Query) (leaderboard.Page, error)
}

const (
	aroundMe       = "me"        // the only value of the parameter around
	scopeFollowing = "following" // the only value of the parameter scope
)

// boardParams are the parameters that every board has.
type boardParams struct{ period, startsOn, lang, limit, cursor, around *string }

// GetLeaderboard answers one page of a board.
func (h *handlers) GetLeaderboard(c echo.Context, params api.GetLeaderboardParams) error {
	grant, err := h.admitViewer(c, privacy.Board)
	if err != nil {
		return err
	}
	common := boardParams{
		period: params.Period, startsOn: params.StartsOn, lang: params.Lang,
		limit: params.Limit, cursor: params.Cursor, around: params.Around,
	}
	switch value(params.Scope) {
	case "":
	case scopeFollowing:
		return h.answerFollowing(c, grant.UserID, common)
	default:
		return invalid("scope", "want following")
	}
	return h.answerBoard(c, grant.UserID, common, h.Boards.Page)
}

// pageFunc reads a page of a board.
type pageFunc func(ctx context.Context, now time.Time, b leaderboard.Board, q leaderboard.Query) (leaderboard.Page, error)

// answerBoard answers the page that the parameters ask for, as read reads it.
func (h *handlers) answerBoard(c echo.Context, viewer uuid.UUID, params boardParams, read pageFunc) error {
	now := h.Clock.Now()
	board, err := boardOf(params, now, h.Languages)
	if err != nil {
		return err
	}
	query, err := boardQuery(params, viewer)
	if err != nil {
		return err
	}
	page, err := read(c.Request().Context(), now, board, query)
	if err != nil {
		return err
	}
	answer := leaderboardPage(&page)
	if page.UpdatedAt.Equal(now) { // computed for this request: the next one gets the same page of another moment
		same := answer
		same.UpdatedAt = api.Instant{}
		tagAnswerBy(c, same)
	}
	return writeJSON(c, http.StatusOK, answer)
}

// answerFollowing answers a page of the board of a user and those whom the user follows.
func (h *handlers) answerFollowing(c echo.Context, viewer uuid.UUID, params boardParams) error {
	if viewer == uuid.Nil {
		return &admission.Error{Code: admission.CodeUnauthorized, Message: "scope=following needs a token"}
	}
	circle, err := h.Following.Circle(c.Request().Context(), viewer)
	if err != nil {
		return err
	}
	return h.answerCircle(c, viewer, circle, params)
}

// boardOf is the board that the parameters name. Without a period it is the week's, as on the published server, and without
// a day the one at now in UTC. Any day of a period stands for the period, so that a caller needs no calendar of its own.
func boardOf(params boardParams, now time.Time, langs *languages.Resolver) (leaderboard.Board, error) {
	period := calendar.PeriodWeek
	if raw := value(params.period); raw != "" {
		var err error
		if period, err = calendar.ParsePeriod(raw); err != nil {
			return leaderboard.Board{}, invalid("period", "want day, week, month or alltime")
		}
	}
	day := calendar.DayOf(now.UTC())
	if raw := value(params.startsOn); raw != "" {
		var err error
		if day, err = calendar.ParseDay(raw); err != nil || day < 0 {
			return leaderboard.Board{}, invalid("starts_on", "want a date, YYYY-MM-DD, from 1970-01-01 on")
		}
	}
	b := leaderboard.Board{Span: calendar.SpanOf(period, day)}
	if raw := value(params.lang); raw != "" {
		// An empty board would be as true, but would hide a slip of the pen; and unlisted names are not for the public.
		key, listed := langs.Resolve(raw)
		if !listed {
			return leaderboard.Board{}, invalid("lang", "there is no board for this language")
		}
		b.Lang = key
	}
	return b, nil
}

// boardQuery is the part of the board that the parameters ask for. viewer is uuid.Nil for an anonymous one, who cannot ask
// for his own surroundings. A cursor is checked where it is used.
func boardQuery(params boardParams, viewer uuid.UUID) (leaderboard.Query, error) {
	q := leaderboard.Query{
		Limit:  limitOf(params.limit, leaderboard.MaxLimit),
		Cursor: value(params.cursor),
		Me:     viewer,
	}
	switch value(params.around) {
	case "":
		return q, nil
	case aroundMe:
	default:
		return q, invalid("around", "want me")
	}
	if viewer == uuid.Nil {
		return q, &admission.Error{Code: admission.CodeUnauthorized, Message: "around=me needs a token"}
	}
	if q.Cursor != "" {
		return q, invalid("cursor", "does not go together with around")
	}
	q.Around = viewer
	return q, nil
}

// leaderboardPage is the page as it goes over the wire. It repeats which board it is, since the request may have left that
// to us; me is left out for who has no place on it.
func leaderboardPage(p *leaderboard.Page) api.Leaderboard {
	out := api.Leaderboard{
		Period:     api.Period(p.Board.Period),
		StartsOn:   p.Board.StartsOn,
		UpdatedAt:  api.Instant(p.UpdatedAt),
		Entries:    make([]api.LeaderboardEntry, 0, len(p.Entries)),
		NextCursor: p.NextCursor,
	}
	for i := range p.Entries {
		out.Entries = append(out.Entries, leaderboardEntry(&p.Entries[i]))
	}
	if p.Me != nil {
		me := leaderboardEntry(p.Me)
		out.Me = &me
	}
	return out
}

// leaderboardEntry is one place. It leaves out the user's id: tokens carry it, and boards are public.
func leaderboardEntry(e *leaderboard.Entry) api.LeaderboardEntry {
	out := api.LeaderboardEntry{
		Rank:       e.Rank,
		Handle:     e.Handle,
		AvatarURL:  e.AvatarURL,
		DurationS:  e.Seconds,
		StreakDays: e.StreakDays,
		Delta:      e.Delta,
	}
	if e.TopLang != nil {
		out.TopLang = displayName(*e.TopLang)
	}
	return out
}
