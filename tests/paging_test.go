package tests

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/languages"
	"github.com/commma/commma/internal/leaderboard"
)

// Everybody on a board is read page by page while every tenth member gains, loses, goes off and comes back: who did not move
// is seen once, in the order of the board. Of the present week in Redis, and of one of long ago in Postgres.
func TestTrialsPaging(t *testing.T) {
	alongside(t)
	for _, where := range boardPlaces {
		s := newSuite(t, "board of "+where.name+" walked by cursor", 1)
		p := newPaging(t, where.weeksAgo, scaled(100_000, pagingSample))
		s.add(p.walk(p.byCursor))
	}
}

// The walk sees what it is there to see: where a page says how many places come before it, and not after which place, whoever
// moves across it moves others with them.
func TestTrialsPagingWithoutPlaces(t *testing.T) {
	alongside(t)
	for _, where := range boardPlaces {
		s := newSuiteWithout(t, "places in cursors", "board of "+where.name+" walked", 1)
		p := newPaging(t, where.weeksAgo, pagingSample)
		s.add(p.walk(p.byIndex))
	}
}

var boardPlaces = []struct {
	name     string
	weeksAgo int
}{{"Redis", 0}, {"Postgres", 5}}

// paging is a board of very many, most of whom stand still.
type paging struct {
	*scene
	base    string
	members int
	board   leaderboard.Board
	live    bool // Redis has it
	rand    *rand.Rand
}

// Every so many-th member moves, so many of them after each page.
const (
	moverEvery   = 10
	moversAtOnce = 20
	pagingSample = 5000 // members; a page that goes wrong shows among them too
)

func newPaging(t *testing.T, weeksAgo, members int) *paging {
	t.Helper()
	now := clock.System{}.Now().UTC()
	span := calendar.SpanOf(calendar.PeriodWeek, calendar.DayOf(now.AddDate(0, 0, -7*weeksAgo)))
	p := &paging{
		scene: newScene(t), members: members, board: leaderboard.Board{Span: span}, live: weeksAgo == 0,
		rand: rand.New(rand.NewPCG(1, uint64(weeksAgo))),
	}
	p.exec(`INSERT INTO users (id, handle, token_hash, version) SELECT md5(i::text)::uuid,
		CASE WHEN i % $2::int = 0 THEN 'move-' ELSE 'stay-' END || i, '\x00', 1 FROM generate_series(1, $1::int) i`, p.members, moverEvery)
	p.exec(`INSERT INTO user_zones SELECT id, 0, 'UTC' FROM users`)
	p.exec(`INSERT INTO totals SELECT md5(i::text)::uuid, 'week', $2::date, '', 60 + i::bigint * 7919 % 977
		FROM generate_series(1, $1::int) i`, p.members, span.StartsOn)
	p.exec(`ANALYZE`)
	if p.live {
		_, err := leaderboard.NewBuilder(p.pool, p.rdb, languages.Keys(), nopLogger()).Build(t.Context(), p.board)
		require.NoError(t, err)
	}
	p.base = startNode(t, nodeConfig{database: p.database, rdb: p.stack.rdb})
	return p
}

// stillSeconds is what a member has who does not move: many share it.
func stillSeconds(i int) int64 { return 60 + int64(i)*7919%977 }

// move gives some of the movers other seconds, or takes them off or back on, and publishes them.
func (p *paging) move() {
	p.t.Helper()
	for range moversAtOnce {
		i, mode := moverEvery*(1+p.rand.IntN(p.members/moverEvery)), "full"
		if p.rand.IntN(10) == 0 {
			mode = "off"
		}
		p.exec(`WITH moved AS (UPDATE totals SET seconds = $2 WHERE user_id = md5($1::int::text)::uuid AND period = 'week'),
			raised AS (UPDATE users SET version = version + 1, privacy = $3 WHERE id = md5($1::int::text)::uuid RETURNING id, version)
			INSERT INTO outbox (user_id, version) SELECT id, version FROM raised
			ON CONFLICT (user_id) DO UPDATE SET version = excluded.version`, i, 1+p.rand.IntN(1100), mode)
	}
	if p.live {
		p.publishMeanwhile()
	}
}

// boardPage is a page as far as the walk looks at it.
type boardPage struct {
	Entries []boardEntry
	Next    *string `json:"next_cursor"`
}

type boardEntry struct {
	Rank      int64
	Handle    string
	DurationS int64 `json:"duration_s"`
}

// byCursor reads the page that a cursor of the one before leads to, over HTTP.
func (p *paging) byCursor(cursor string) (page boardPage) {
	p.t.Helper()
	status, answer := call(p.t, http.MethodGet, fmt.Sprintf("%s/v1/leaderboard?period=week&starts_on=%s&limit=100&cursor=%s",
		p.base, p.board.StartsOn, url.QueryEscape(cursor)), "", "")
	require.Equal(p.t, http.StatusOK, status, answer)
	require.NoError(p.t, json.Unmarshal([]byte(answer), &page))
	return page
}

// byIndex reads the page that comes after so many places: what a cursor must not be.
func (p *paging) byIndex(cursor string) (page boardPage) {
	p.t.Helper()
	start, _ := strconv.Atoi(cursor)
	rows, err := p.pool.Query(p.t.Context(), `SELECT rank() OVER (ORDER BY t.seconds DESC), u.handle, t.seconds
		FROM totals t JOIN users u ON u.id = t.user_id WHERE u.privacy <> 'off'
		ORDER BY t.seconds DESC, t.user_id DESC OFFSET $1 LIMIT 100`, start)
	require.NoError(p.t, err)
	page.Entries, err = pgx.CollectRows(rows, pgx.RowToStructByPos[boardEntry])
	require.NoError(p.t, err)
	if len(page.Entries) == 100 {
		next := strconv.Itoa(start + 100)
		page.Next = &next
	}
	return page
}

// walk reads page after page and moves some after each. It counts those who did not move: how often each was seen.
func (p *paging) walk(read func(cursor string) boardPage) (found tally) {
	p.t.Helper()
	seen := make([]int, p.members+1)
	cursor := ""
	for {
		page := read(cursor)
		for i := range page.Entries {
			e := &page.Entries[i]
			if i > 0 && wrongOrder(page, i) {
				found.Errors++
			}
			if n, ok := strings.CutPrefix(e.Handle, "stay-"); ok {
				member, err := strconv.Atoi(n)
				require.NoError(p.t, err)
				seen[member]++
				found.Errors += b2n(e.DurationS != stillSeconds(member))
			}
		}
		if page.Next == nil {
			break
		}
		cursor = *page.Next
		p.move()
	}
	for member := 1; member <= p.members; member++ {
		if member%moverEvery == 0 {
			continue
		}
		found.Expected++
		found.Found += int64(min(seen[member], 1))
		found.Duplicates += int64(max(seen[member]-1, 0))
		found.Lost += b2n(seen[member] == 0)
	}
	return found
}

// wrongOrder says whether an entry should not stand after the one before it, or has not the rank that it should have there.
func wrongOrder(page boardPage, i int) bool {
	before, e := page.Entries[i-1], page.Entries[i]
	return e.DurationS > before.DurationS || (e.DurationS == before.DurationS) != (e.Rank == before.Rank) || e.Rank < before.Rank
}
