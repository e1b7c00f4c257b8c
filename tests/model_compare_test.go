package tests

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/tests/model"
)

// standingUser is what stands of one user in Postgres.
type standingUser struct {
	sessions map[string]*model.Session // by id
	ids      []model.Standing          // by time
	aliases  map[string]string
	totals   map[model.Total]int64 // without zeros
	longest  int64
	count    int64 // of sessions, as it stands beside the user
	hot      int64
	private  int64 // rows with paths, projects or key counts
}

// read reads what stands of the users, in one round trip.
func (s *sequence) read() map[uuid.UUID]*standingUser {
	s.Helper()
	out := map[uuid.UUID]*standingUser{}
	var ids []uuid.UUID
	for _, u := range s.users {
		ids = append(ids, u.id)
		out[u.id] = &standingUser{sessions: map[string]*model.Session{}, aliases: map[string]string{}, totals: map[model.Total]int64{}}
	}
	var b pgx.Batch
	var user, id uuid.UUID
	each := func(sql string, targets []any, fn func()) {
		b.Queue(sql, ids).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, targets, func() error { fn(); return nil })
			return err
		})
	}
	var v model.Session
	each(`SELECT user_id, id, extract(epoch FROM started_at)::bigint, extract(epoch FROM ended_at)::bigint, zone, events, keystrokes, lines
		FROM sessions WHERE user_id = ANY ($1) ORDER BY started_at`,
		[]any{&user, &id, &v.Start, &v.End, &v.Zone, &v.Events, &v.Keystrokes, &v.Lines}, func() {
			session := v
			session.Stretch, session.Seconds = model.Stretch{First: v.Start + 60, Last: v.End}, model.Seconds{}
			out[user].sessions[id.String()] = &session
			out[user].ids = append(out[user].ids, model.Standing{ID: id.String(), Stretch: session.Stretch})
		})
	var day, seconds int64
	var lang, period string
	each(`SELECT user_id, session_id, day - DATE '1970-01-01', lang, seconds FROM session_seconds WHERE user_id = ANY ($1)`,
		[]any{&user, &id, &day, &lang, &seconds}, func() {
			session := out[user].sessions[id.String()]
			require.NotNil(s, session, "seconds of no session: %s", id)
			session.Seconds[model.DayLang{Day: model.Day(day), Lang: lang}] = seconds
		})
	each(`SELECT user_id, period, starts_on - DATE '1970-01-01', lang, seconds FROM totals WHERE user_id = ANY ($1) AND seconds <> 0`,
		[]any{&user, &period, &day, &lang, &seconds}, func() {
			out[user].totals[model.Total{Period: model.Period(period), StartsOn: model.Day(day), Lang: lang}] = seconds
		})
	var heir uuid.UUID
	each(`SELECT user_id, id, heir FROM session_aliases WHERE user_id = ANY ($1)`, []any{&user, &id, &heir},
		func() { out[user].aliases[id.String()] = heir.String() })
	var count int64
	each(`SELECT id, longest_streak_days, session_count FROM users WHERE id = ANY ($1)`, []any{&user, &seconds, &count},
		func() { out[user].longest, out[user].count = seconds, count })
	each(`SELECT user_id, count(*) FROM events WHERE user_id = ANY ($1) GROUP BY 1`, []any{&user, &seconds}, func() { out[user].hot = seconds })
	each(`SELECT user_id, count(*) FROM (
			SELECT user_id FROM events WHERE project IS NOT NULL OR file IS NOT NULL OR key_freq IS NOT NULL
			UNION ALL SELECT user_id FROM session_details UNION ALL SELECT user_id FROM archive_details) p
		WHERE user_id = ANY ($1) GROUP BY 1`, []any{&user, &seconds}, func() { out[user].private = seconds })
	require.NoError(s, s.pool.SendBatch(s.Context(), &b).Close())
	return out
}

// observe looks at what stands after a step in which each user was finalized: at most once, when once is set; and to the
// end of what had ended at now, when whole is set.
func (s *sequence) observe(now *time.Time, whole, once bool) {
	s.Helper()
	at := int64(math.MaxInt64)
	if now != nil {
		at = now.Unix()
	}
	for id, got := range s.read() {
		u := s.user(id)
		require.Empty(s, u.lineage.See(got.ids, got.aliases, once))
		if u.model.Mode() != model.Full {
			require.Zero(s, got.private, "rows with what is private")
		}
		var standing []model.Session
		ended := map[model.Stretch]model.Session{}
		for _, g := range got.sessions {
			standing = append(standing, *g)
			ended[g.Stretch] = *g
		}
		require.Equal(s, model.Totals(standing), got.totals, "totals are not the sums over sessions")
		require.Equal(s, model.StreakOf(standing).Longest(), got.longest, "longest streak")
		require.EqualValues(s, len(standing), got.count, "number of sessions")
		for total := range got.totals {
			u.boards[boardOf(total)] = true
		}
		if !whole || now != nil && u.deleted {
			continue // an event in a deleted stretch may make two runs look like one that is open, until the later one ends
		}
		for _, want := range u.model.Ended(at) {
			require.Equal(s, want, ended[want.Stretch], "session at %v, when the clock says %d", want.Stretch, at)
		}
	}
}

func boardOf(t model.Total) leaderboard.Board {
	return leaderboard.Board{Span: calendar.Span{Period: calendar.Period(t.Period), StartsOn: calendar.Day(t.StartsOn)}, Lang: t.Lang}
}

func (s *sequence) user(id uuid.UUID) *modelUser {
	for _, u := range s.users {
		if u.id == id {
			return u
		}
	}
	panic("a user of nobody")
}

// settle goes on until nothing is hot and nothing is pending.
func (s *sequence) settle(now *time.Time) {
	s.Helper()
	s.note("settle")
	s.cycles(now, s.worker)
	s.buryBuilder()
	s.settledOn = calendar.DayOf(clock.System{}.Now().UTC())
	s.until(func() bool {
		stats, err := s.worker.publisher.Cycle(s.Context(), nil)
		require.NoError(s, err)
		return stats.Left == 0
	})
	var pending int
	require.NoError(s, s.pool.QueryRow(s.Context(), `SELECT count(*) FROM outbox`).Scan(&pending))
	require.Zero(s, pending, "rows in the outbox")
}

// buryBuilder cuts short the wait of boards for a builder that died. Before, who is not pending must be shown as is right.
func (s *sequence) buryBuilder() {
	if !s.builderDied {
		return
	}
	s.builderDied = false
	_, _ = s.worker.publisher.Cycle(s.Context(), nil) // some boards may have to wait
	for _, u := range s.users {
		var pending bool
		require.NoError(s, s.pool.QueryRow(s.Context(), `SELECT EXISTS (SELECT 1 FROM outbox WHERE user_id = $1)`, u.id).Scan(&pending))
		if !pending {
			s.comparePlaces(u, nil)
		}
	}
	s.flush()
}

// compare compares all that stands with the model, when nothing is pending.
func (s *sequence) compare() {
	s.Helper()
	s.lane.mu.Lock()
	s.missing = nil
	s.lane.mu.Unlock()
	for id, got := range s.read() {
		u := s.user(id)
		want := u.model.Sessions()
		require.Len(s, got.ids, len(want), "sessions of the model: %v", want)
		for i := range want {
			require.Equal(s, want[i], *got.sessions[got.ids[i].ID])
		}
		totals := model.Totals(want)
		require.Equal(s, totals, got.totals)
		require.Zero(s, got.hot, "hot events")
		if !u.model.Gone() {
			require.Equal(s, model.StreakOf(want).Longest(), got.longest)
		}
		places := map[leaderboard.Board]int64{}
		for total, seconds := range totals {
			places[boardOf(total)] = seconds
		}
		s.comparePlaces(u, places)
		s.compareMe(u, model.StreakOf(want))
	}
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	if calendar.DayOf(clock.System{}.Now().UTC()) == s.settledOn { // at midnight other boards are kept
		require.Empty(s, s.missing, "boards that are not whole")
	}
}

// comparePlaces compares the user's places on every board that the user was ever to be on with what they must be; nil is
// for what stands in Postgres now, and for a user whose change has just been answered.
func (s *sequence) comparePlaces(u *modelUser, want map[leaderboard.Board]int64) {
	s.Helper()
	if want == nil {
		want = map[leaderboard.Board]int64{}
		for total, seconds := range s.read()[u.id].totals {
			want[boardOf(total)] = seconds
		}
	}
	now := clock.System{}.Now()
	kept, old := calendar.Kept(now), 0
	for board := range u.boards {
		if board.Lang != "" && !isListed(board.Lang) {
			continue
		}
		if !slices.Contains(kept, board.Span) {
			if old++; old > 2 { // Postgres answers for all of these, in one way
				continue
			}
		}
		page, err := s.reader.Page(s.Context(), now, board, leaderboard.Query{Around: u.id, Limit: 1})
		require.NoError(s, err)
		if u.model.Mode() == model.Off || u.model.Gone() || want[board] == 0 {
			require.Nil(s, page.Me, "on board %v, with no right to be", board)
			continue
		}
		require.NotNil(s, page.Me, "not on board %v", board)
		require.Equal(s, want[board], page.Me.Seconds, "board %v", board)
	}
}

// compareMe compares the streak as the user sees it, on the account and on the board.
func (s *sequence) compareMe(u *modelUser, streak model.Streak) {
	s.Helper()
	before := clock.System{}.Now().Unix()
	status, answer := s.send(u, http.MethodGet, "/v1/me", "")
	if u.model.Gone() {
		require.Equal(s, http.StatusForbidden, status, answer)
		return
	}
	require.Equal(s, http.StatusOK, status, answer)
	var me struct {
		Streak struct {
			Current int64   `json:"current_days"`
			Longest int64   `json:"longest_days"`
			Last    *string `json:"last_active_date"`
		}
	}
	require.NoError(s, json.Unmarshal([]byte(answer), &me))
	zone := u.model.Zone(before)
	current := []int64{streak.Current(model.LocalDay(before, zone)), streak.Current(model.LocalDay(clock.System{}.Now().Unix(), zone))}
	require.Contains(s, current, me.Streak.Current, "current streak %v in %s", streak, zone)
	require.Equal(s, streak.Longest(), me.Streak.Longest)
	if last, ok := streak.Last(); ok {
		require.NotNil(s, me.Streak.Last)
		require.Equal(s, last.String(), *me.Streak.Last)
	} else {
		require.Nil(s, me.Streak.Last)
	}
	status, answer = s.send(u, http.MethodGet, "/v1/leaderboard?period=alltime&limit=1&around=me", "")
	require.Equal(s, http.StatusOK, status, answer)
	var board struct {
		Me *struct {
			Streak int64 `json:"streak_days"`
		}
	}
	require.NoError(s, json.Unmarshal([]byte(answer), &board))
	if board.Me != nil {
		require.Contains(s, current, board.Me.Streak)
	}
}

// present goes on with what happens now: moves from zone to zone with events from those very seconds, while their run is
// open, and a run that is open for more than 24 hours. In the end an hour has passed.
func (s *sequence) present() {
	u := s.drawUser()
	began := clock.System{}.Now().Unix()
	if s.oneIn(4, "open for a day") {
		s.note("open for a day")
		var batch []sent
		for at := began - 400; at > began-90_000; at -= 890 {
			e := s.drawEvent(u, at)
			u.sent, batch = append(u.sent, e), append(batch, e)
		}
		s.uploadBatch(u, batch)
	}
	for range rapid.IntRange(1, 4).Draw(s.T, "steps") {
		switch rapid.SampledFrom([]string{"move", "move", "upload", "cycle", "killed cycle"}).Draw(s.T, "step") {
		case "move":
			s.setZone(u, rapid.SampledFrom(zoneNames()).Draw(s.T, "zone"))
		case "cycle":
			s.cyclesOpen()
		case "killed cycle":
			s.killed(func(ctx context.Context, w *modelWorker) { _, _ = w.aggregator.Cycle(ctx, nil) })
			s.freed()
			s.observe(nil, false, true)
		}
		var batch []sent
		for range rapid.IntRange(1, 4).Draw(s.T, "n") {
			e := s.drawEvent(u, began+rapid.Int64Range(-600, 280).Draw(s.T, "at"))
			u.sent, batch = append(u.sent, e), append(batch, e)
		}
		s.note("upload at present")
		s.uploadBatch(u, batch)
	}
	later := clock.System{}.Now().Add(time.Hour)
	s.settle(&later)
	s.compare()
}

// cyclesOpen runs a cycle while runs are open.
func (s *sequence) cyclesOpen() {
	_, err := s.worker.aggregator.Cycle(s.Context(), nil)
	require.NoError(s, err)
	s.observe(nil, false, true)
}

// found counts what stands and what must.
func (s *sequence) found() (t tally) {
	for id, got := range s.read() {
		t.Found += int64(len(got.ids))
		t.Expected += int64(len(s.user(id).model.Sessions()))
	}
	return t
}

// leave erases the users, now and then, and none of them may leave anything behind. The others stay: on a board there is
// always somebody else.
func (s *sequence) leave() {
	if !s.oneIn(8, "leave") {
		return
	}
	s.note("leave")
	var ids []uuid.UUID
	for _, u := range s.users {
		s.erase(u)
		ids = append(ids, u.id)
	}
	s.settle(nil)
	s.compare()
	places, err := s.lane.of.count(s.Context(), ids...)
	require.NoError(s, err)
	require.Zero(s, sumOf(places), "rows of nobody: %v", places)
}
