package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/sessions"
)

func ptr[T any](v T) *T { return &v }

func TestLeaderboardParameters(t *testing.T) {
	t.Parallel()
	monday := calendar.Date(2026, 6, 15)
	for query, want := range map[string]struct {
		board leaderboard.Board
		query leaderboard.Query
	}{
		"":                                 {leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodWeek, StartsOn: monday}}, leaderboard.Query{Limit: 100}},
		"period=&lang=&starts_on=&cursor=": {leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodWeek, StartsOn: monday}}, leaderboard.Query{Limit: 100}},
		"period=day&limit=7":               {leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodDay, StartsOn: monday + 2}}, leaderboard.Query{Limit: 7}},
		"period=month&starts_on=2026-02-17": {
			leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodMonth, StartsOn: calendar.Date(2026, 2, 1)}},
			leaderboard.Query{Limit: 100},
		},
		"period=week&starts_on=2026-06-14": {leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodWeek, StartsOn: monday - 7}}, leaderboard.Query{Limit: 100}},
		"period=alltime&starts_on=2026-06-14": {
			leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodAllTime}}, leaderboard.Query{Limit: 100},
		},
		"lang=TypeScript&cursor=abc": {
			leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodWeek, StartsOn: monday}, Lang: "typescript"},
			leaderboard.Query{Limit: 100, Cursor: "abc"},
		},
		"lang=c%2B%2B":    {leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodWeek, StartsOn: monday}, Lang: "c++"}, leaderboard.Query{Limit: 100}},
		"limit=0":         {leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodWeek, StartsOn: monday}}, leaderboard.Query{Limit: 1}},
		"limit=1e9":       {leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodWeek, StartsOn: monday}}, leaderboard.Query{Limit: 100}},
		"unheard_of=true": {leaderboard.Board{Span: calendar.Span{Period: calendar.PeriodWeek, StartsOn: monday}}, leaderboard.Query{Limit: 100}},
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			var board leaderboard.Board
			var asked leaderboard.Query
			b := setup(t, &fake{page: func(b leaderboard.Board, q leaderboard.Query) (leaderboard.Page, error) {
				board, asked = b, q
				return leaderboard.Page{Board: b, UpdatedAt: testNow}, nil
			}})
			got := b.call(t, http.MethodGet, "/v1/leaderboard?"+query, "")
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.Equal(t, want.board, board)
			require.Equal(t, want.query, asked)
			require.Equal(t, "public, no-cache", got.header.Get("Cache-Control"))
		})
	}
}

func TestLeaderboardRefuses(t *testing.T) {
	t.Parallel()
	for query, field := range map[string]string{
		"period=year":             "period",
		"period=Week":             "period",
		"starts_on=yesterday":     "starts_on",
		"starts_on=2026-02-30":    "starts_on",
		"starts_on=1969-12-31":    "starts_on",
		"starts_on=0000-01-01":    "starts_on",
		"lang=klingon":            "lang",
		"lang=unknown":            "lang",
		"around=you":              "around",
		"around=me&cursor=abc":    "cursor",
		"period=day&period=month": "",
	} {
		e := setup(t, &fake{}).call(t, http.MethodGet, "/v1/leaderboard?"+query, "", signedIn()).
			requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
		if field != "" {
			require.Equal(t, []string{field}, e.Details[0].Path, query)
		}
	}
	setup(t, &fake{}).call(t, http.MethodGet, "/v1/leaderboard?around=me", "").
		requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
	setup(t, &fake{page: func(leaderboard.Board, leaderboard.Query) (leaderboard.Page, error) {
		return leaderboard.Page{}, leaderboard.ErrBadCursor
	}}).call(t, http.MethodGet, "/v1/leaderboard?cursor=x", "").
		requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
}

func TestLeaderboardAnswer(t *testing.T) {
	t.Parallel()
	me := leaderboard.Entry{UserID: testUser, Handle: "demo", Seconds: 1 << 40, Rank: 7, Delta: ptr(int64(-1))}
	b := setup(t, &fake{page: func(b leaderboard.Board, q leaderboard.Query) (leaderboard.Page, error) {
		if q.Me != testUser || q.Around != testUser {
			return leaderboard.Page{}, context.Canceled
		}
		return leaderboard.Page{
			Board: b, UpdatedAt: testNow, NextCursor: ptr("abc"), Me: &me,
			Entries: []leaderboard.Entry{
				{UserID: uuid.New(), Handle: "ada", Seconds: 20, Rank: 1, TopLang: ptr("c++"), StreakDays: 3, AvatarURL: ptr("https://a.example")},
			},
		}, nil
	}})
	got := b.call(t, http.MethodGet, "/v1/leaderboard?around=me", "", signedIn())
	require.JSONEq(t, `{"period":"week","starts_on":"2026-06-15","updated_at":"2026-06-17T09:30:00.123Z","entries":[
		{"rank":1,"handle":"ada","avatar_url":"https://a.example","duration_s":20,"top_lang":"C++","streak_days":3,"delta":null}],
		"next_cursor":"abc",
		"me":{"rank":7,"handle":"demo","avatar_url":null,"duration_s":1099511627776,"top_lang":null,"streak_days":0,"delta":-1}}`, got.body)
	require.Equal(t, "private, no-cache", got.header.Get("Cache-Control"))
	require.Contains(t, got.header.Values("Vary"), "Authorization")

	got = setup(t, &fake{}).call(t, http.MethodGet, "/v1/leaderboard", "")
	require.NotContains(t, got.json(t), "me")
}

func TestSessionListParameters(t *testing.T) {
	t.Parallel()
	cursor := sessions.Cursor{StartedAt: time.Date(2026, 6, 15, 8, 0, 0, 0, time.UTC), ID: testUser}
	for query, want := range map[string]struct {
		after *sessions.Cursor
		limit int
	}{
		"":                           {nil, 20},
		"limit=5":                    {nil, 5},
		"limit=2.9":                  {nil, 2},
		"limit=-3":                   {nil, 1},
		"limit=1000":                 {nil, 100},
		"limit=many":                 {nil, 20},
		"limit=NaN":                  {nil, 20},
		"limit=1e999":                {nil, 20},
		"cursor=" + cursor.String():  {&cursor, 20},
		"cursor=&limit=":             {nil, 20},
		"limit=99999999999999999999": {nil, 100},
	} {
		var after *sessions.Cursor
		var limit int
		b := setup(t, &fake{list: func(_ context.Context, c *sessions.Cursor, n int) (sessions.Page, error) {
			after, limit = c, n
			return sessions.Page{}, nil
		}})
		got := b.call(t, http.MethodGet, "/v1/sessions?"+query, "", signedIn())
		require.JSONEq(t, `{"sessions":[],"next_cursor":null}`, got.body, query)
		require.Equal(t, want.limit, limit, query)
		require.Equal(t, want.after, after, query)
		require.Equal(t, "private, no-cache", got.header.Get("Cache-Control"))
	}
	for _, bad := range []string{"x", "!", url.QueryEscape("MjAyNi0wNi0xNXxhYmM=")} {
		setup(t, &fake{}).call(t, http.MethodGet, "/v1/sessions?cursor="+bad, "", signedIn()).
			requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
	}
}

func TestSessionListAnswer(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 6, 15, 8, 42, 0, 0, time.UTC)
	b := setup(t, &fake{list: func(context.Context, *sessions.Cursor, int) (sessions.Page, error) {
		return sessions.Page{
			Sessions: []sessions.Session{{ID: testUser, StartedAt: start, EndedAt: start.Add(2 * time.Minute), Keystrokes: 301, Lines: -4, TopLang: "typescript",
				Counts: sessions.Counts{Views: 1, Shares: 2, Kudos: 3, Comments: 1 << 40}}},
			Next: &sessions.Cursor{StartedAt: start, ID: testUser},
		}, nil
	}})
	got := b.call(t, http.MethodGet, "/v1/sessions", "", signedIn())
	require.JSONEq(t, `{"sessions":[{"id":"3f0e6a3d-7b0b-4b7d-8d43-5e5f64b1b3a2","started_at":"2026-06-15T08:42:00.000Z",
		"ended_at":"2026-06-15T08:44:00.000Z","duration_s":120,"lines_delta":-4,"pace_cpm":151,"top_lang":"TypeScript",
		"views":1,"shares":2,"kudos":3,"comments":1099511627776}],
		"next_cursor":"`+(sessions.Cursor{StartedAt: start, ID: testUser}).String()+`"}`, got.body)
}

func TestSessionDetailAnswer(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 6, 15, 8, 42, 0, 0, time.UTC)
	detail := &sessions.Detail{
		Session: sessions.Session{ID: testUser, StartedAt: start, EndedAt: start.Add(5 * time.Minute), Keystrokes: 1 << 40, TopLang: "go",
			Counts: sessions.Counts{Views: 1, Shares: 2, Kudos: 3, Comments: 4}},
		PeakCPM: 1 << 39, PeakAt: start.Add(time.Minute),
		Langs:     []sessions.LangSeconds{{Lang: "go", Seconds: 200}, {Lang: "my own", Seconds: 100}},
		Files:     []sessions.File{{Path: `C:\<a>.go`, Changes: 1 << 40}},
		KeyCounts: map[string]int64{"a": 3, "Space": 1},
	}
	b := setup(t, &fake{get: func(uuid.UUID) (*sessions.Detail, error) { return detail, nil }})
	got := b.call(t, http.MethodGet, "/v1/sessions/"+uuid.NewString(), "", signedIn())
	require.JSONEq(t, `{"id":"3f0e6a3d-7b0b-4b7d-8d43-5e5f64b1b3a2","started_at":"2026-06-15T08:42:00.000Z",
		"ended_at":"2026-06-15T08:47:00.000Z","duration_s":300,"lines_delta":0,"pace_cpm":219902325555,"peak_cpm":549755813888,
		"peak_at":"2026-06-15T08:43:00.000Z",
		"langs":[{"lang":"Go","duration_s":200,"pct":66.67},{"lang":"my own","duration_s":100,"pct":33.33}],
		"files":[{"path":"C:\\<a>.go","changes":1099511627776}],
		"keyboard_heatmap":{"counts":{"a":3,"Space":1},"freq":{"a":0.75,"Space":0.25},"total":4},
		"views":1,"shares":2,"kudos":3,"comments":4}`, got.body)
	require.Equal(t, "private, no-cache", got.header.Get("Cache-Control"))

	detail.Langs, detail.OtherSeconds = detail.Langs[:1], 100
	got = b.call(t, http.MethodGet, "/v1/sessions/"+uuid.NewString(), "", signedIn())
	require.Contains(t, got.body, `"langs":[{"duration_s":200,"lang":"Go","pct":66.67},{"duration_s":100,"lang":"Other","pct":33.33}]`)

	detail.Files, detail.KeyCounts = nil, map[string]int64{"a": 0}
	got = b.call(t, http.MethodGet, "/v1/sessions/"+uuid.NewString(), "", signedIn())
	require.Contains(t, got.body, `"files":[]`)
	require.Contains(t, got.body, `"keyboard_heatmap":null`, "no presses, no shares")
}

func TestSessionDetailRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{get: func(uuid.UUID) (*sessions.Detail, error) { return nil, sessions.ErrNotFound }})
	for _, id := range []string{uuid.NewString(), "featured", "1", "%00", "%7B" + uuid.NewString() + "%7D", "a%2Fb"} {
		got := b.call(t, http.MethodGet, "/v1/sessions/"+id, "", signedIn())
		got.requireError(t, http.StatusNotFound, api.ErrorCodeNotFound)
		require.Equal(t, "private, no-cache", got.header.Get("Cache-Control"))
	}
}

func TestDeleteSession(t *testing.T) {
	t.Parallel()
	heir := uuid.New()
	path := "/v1/sessions/" + uuid.NewString()
	for _, c := range []struct {
		err    error
		status int
		code   api.ErrorCode
	}{
		{aggregate.ErrNoSession, http.StatusNotFound, api.ErrorCodeNotFound},
		{&aggregate.AbsorbedError{Heir: heir}, http.StatusConflict, api.ErrorCodeConflict},
		{account.ErrBusy, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable},
	} {
		e := setup(t, &fake{delete: fmt.Errorf("delete session: %w", c.err)}).call(t, http.MethodDelete, path, "", signedIn()).requireError(t, c.status, c.code)
		if c.status == http.StatusConflict {
			require.Equal(t, heir.String(), e.Details[0].Message, "it names the heir")
		}
	}
	b := setup(t, &fake{})
	require.Equal(t, http.StatusNoContent, b.call(t, http.MethodDelete, path, "", signedIn()).status)
	b.call(t, http.MethodDelete, "/v1/sessions/nonsense", "", signedIn()).requireError(t, http.StatusNotFound, api.ErrorCodeNotFound)
	require.Equal(t, http.StatusNoContent, b.call(t, http.MethodDelete, "/v1/me", "", signedIn()).status)
}
