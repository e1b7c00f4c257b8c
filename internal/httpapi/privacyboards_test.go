package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/privacy"
)

const (
	lastWeek      = 7 * 24 * time.Hour
	threeWeeksAgo = 3 * lastWeek
)

// boardReads are all ways to ask for a board, and whether Redis keeps it: of an older one there is only what Postgres has.
var boardReads = []struct {
	query  string
	isKept bool
}{
	{"", true},
	{"period=day", true},
	{"period=month", true},
	{"period=alltime", true},
	{"lang=Go", true},
	{"period=alltime&lang=go", true},
	{"around=me", true},
	{"around=me&lang=go&period=month", true},
	{"starts_on=" + weekOf(lastWeek), true},
	{"starts_on=" + weekOf(threeWeeksAgo), false},
	{"around=me&starts_on=" + weekOf(threeWeeksAgo), false},
}

func weekOf(ago time.Duration) string {
	return calendar.SpanOf(calendar.PeriodWeek, calendar.DayOf(testNow.Add(-ago))).StartsOn.String()
}

// newNeighbour builds the boards, with a user on them who leads this week, and the week before was behind whoever worked
// for ten minutes.
func (r real) newNeighbour(t *testing.T) account.Created {
	t.Helper()
	u := r.mustUser(t, "neighbour")
	r.work(t, u, 90*time.Minute, 80*time.Minute, 70*time.Minute, 60*time.Minute, 50*time.Minute, 40*time.Minute, 30*time.Minute,
		20*time.Minute, lastWeek, threeWeeksAgo)
	stats, err := r.Publisher.Cycle(t.Context(), &testNow)
	require.NoError(t, err)
	require.Positive(t, stats.Built)
	require.Zero(t, stats.Left)
	return u
}

// checkBoards reads every board in every way and checks that the owner has the place that the permission says, or none. The
// other viewer is the neighbour.
func (r real) checkBoards(t *testing.T, viewer privacy.Viewer, o owner, neighbour account.Created) {
	t.Helper()
	sees := privacy.See(viewer, o.mode, privacy.Board) != privacy.Hidden
	as := map[privacy.Viewer][]option{privacy.Other: {bearer(neighbour)}, privacy.Owner: {bearer(o.Created)}}[viewer]
	for _, read := range boardReads {
		what := fmt.Sprintf("%q of a user on %s, seen by %d", read.query, o.mode, viewer)
		target := "/v1/leaderboard?limit=100&" + read.query
		around := strings.Contains(read.query, "around=")
		if viewer == privacy.Anonymous && around {
			r.call(t, http.MethodGet, target, "", as...).requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
			continue
		}
		board := r.board(t, target, read.isKept, as)
		require.Equal(t, sees, slices.Contains(board.handles(), o.Handle), "%s: %v", what, board)
		require.NotContains(t, fmt.Sprint(board), o.ID.String(), what)
		hasPlace := viewer == privacy.Other || viewer == privacy.Owner && sees
		require.Equal(t, hasPlace || !around, slices.Contains(board.handles(), neighbour.Handle), "%s: %v", what, board)
		require.Equal(t, hasPlace, board.Me != nil, "%s: %v", what, board.Me)
	}
	r.checkPages(t, sees, o, as)
	r.checkDelta(t, sees, neighbour, as)
}

// checkPages goes over the board by cursor, one place a page.
func (r real) checkPages(t *testing.T, sees bool, o owner, as []option) {
	t.Helper()
	var shown []string
	for cursor := ""; ; {
		page := r.board(t, "/v1/leaderboard?limit=1&cursor="+url.QueryEscape(cursor), true, as)
		shown = append(shown, page.handles()...)
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	want := []string{"neighbour"}
	if sees {
		want = append(want, o.Handle)
	}
	require.Equal(t, want, shown)
}

// checkDelta compares with the week before, in which a hidden owner had no place either: else the neighbour's rank would
// tell of him.
func (r real) checkDelta(t *testing.T, sees bool, neighbour account.Created, as []option) {
	t.Helper()
	board := r.board(t, "/v1/leaderboard", true, as)
	first := board.Entries[0]
	require.Equal(t, neighbour.Handle, first.Handle)
	require.NotNil(t, first.Delta)
	if sees {
		require.EqualValues(t, 1, *first.Delta, "from the second place")
	} else {
		require.Zero(t, *first.Delta)
	}
}

type shownBoard api.Leaderboard

func (b shownBoard) handles() (list []string) {
	for _, e := range b.Entries {
		list = append(list, e.Handle)
	}
	return list
}

// board reads a page, from Redis if it is kept there: a page from Postgres says that it is as new as the request. A Redis
// that does not answer in time is asked again.
func (r real) board(t *testing.T, target string, isKept bool, as []option) (board shownBoard) {
	t.Helper()
	require.Eventually(t, func() bool {
		got := r.call(t, http.MethodGet, target, "", as...)
		require.Equal(t, http.StatusOK, got.status, got.body)
		board = shownBoard{}
		require.NoError(t, json.Unmarshal([]byte(got.body), &board))
		return isKept != time.Time(board.UpdatedAt).Equal(testNow.Truncate(time.Millisecond))
	}, patience, 10*time.Millisecond, "%s", target)
	return board
}
