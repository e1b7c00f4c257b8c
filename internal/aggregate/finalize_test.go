package aggregate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/store"
)

var utc = Zones{{0, "UTC"}}

func TestCycleFinalizesWhatHasEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	a, b := at(noon, "go", 3), at(noon+60, "c", 1)
	f.upload(user, a, b)

	require.Zero(t, f.cycle(noon+60+900).Due, "the idle time is not over")
	s := f.cycle(noon + 60 + 901)
	require.Equal(t, 1, s.Finalized)
	require.Equal(t, 2, s.Events)
	require.Equal(t, int64(120), s.Seconds)
	f.requireStands(user, utc, a, b)
	require.Zero(t, f.count(`SELECT count(*) FROM events`))
	require.Zero(t, f.count(`SELECT count(*) FROM hot_runs`))
	require.Equal(t, int64(1), f.count(`SELECT version FROM outbox WHERE user_id = $1`, user))
	require.Zero(t, f.cycle(noon+10_000).Due)
}

func TestPostgresClockDecidesWithoutNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	now := f.count(`SELECT extract(epoch FROM now())::bigint`)
	f.upload(user, at(now-10_000, "go", 1), at(now, "go", 1))
	s, err := f.agg.Cycle(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, s.Events)
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM events`))
}

func TestLateEventsRepairWhatStands(t *testing.T) {
	t.Parallel()
	day := int64(86400)
	for _, c := range []struct {
		name    string
		uploads [][]activity.Event // a cycle after each
		aliases int64
	}{
		{"extends at the end", [][]activity.Event{{at(noon, "go", 1)}, {at(noon+900, "c", 1)}}, 0},
		{"extends at the start", [][]activity.Event{{at(noon, "go", 1)}, {at(noon-900, "c", 1)}}, 0},
		{"falls into it", [][]activity.Event{{at(noon, "go", 1), at(noon+900, "go", 1)}, {at(noon+450, "c", 1)}}, 0},
		{"stays apart", [][]activity.Event{{at(noon, "go", 1)}, {at(noon+901, "c", 1)}}, 0},
		{"bridges two", [][]activity.Event{{at(noon, "go", 1), at(noon+1800, "c", 1)}, {at(noon+900, "go", 1)}}, 1},
		{"bridges three, one after the other", [][]activity.Event{
			{at(noon, "go", 1), at(noon+1800, "c", 1), at(noon+3600, "go", 1)}, {at(noon+2700, "go", 1)}, {at(noon+900, "go", 1)},
		}, 2},
		{"moves the midnight", [][]activity.Event{{at(noon+12*3600+30, "go", 1)}, {at(noon+12*3600-300, "c", 1)}}, 0},
		{"repairs a streak", [][]activity.Event{{at(noon, "go", 1), at(noon+2*day, "go", 1)}, {at(noon+3*day, "go", 1)}, {at(noon+day, "c", 1)}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			user := f.user("UTC", activity.ModeFull)
			var all []activity.Event
			var first []uuid.UUID
			for _, events := range c.uploads {
				f.upload(user, events...)
				all = append(all, events...)
				f.cycle(noon + 10*day)
				f.requireStands(user, utc, all...)
				if first == nil {
					for _, r := range query[struct{ ID uuid.UUID }](f, `SELECT id FROM sessions WHERE user_id = $1 ORDER BY started_at`, user) {
						first = append(first, r.ID)
					}
				}
			}
			require.Equal(t, int64(1), f.count(`SELECT count(*) FROM sessions WHERE id = $1`, first[0]), "the earliest keeps its id")
			require.Equal(t, c.aliases, f.count(`SELECT count(*) FROM session_aliases WHERE heir = $1`, first[0]))
		})
	}
}

func TestSentAgainAfterFinalizeCountsOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	events := []activity.Event{at(noon, "go", 3), at(noon+60, "c", 1)}
	f.upload(user, events...)
	f.cycle(noon + 2000)
	version := f.count(`SELECT version FROM users WHERE id = $1`, user)
	f.upload(user, events...)
	s := f.cycle(noon + 2000)
	require.Equal(t, 2, s.Events)
	require.Zero(t, s.Sessions, "nothing new was said, nothing is written")
	f.requireStands(user, utc, events...)
	require.Equal(t, version, f.count(`SELECT version FROM users WHERE id = $1`, user))
	require.Zero(t, f.count(`SELECT count(*) FROM events`))
}

func TestUsersWithTheSameEventIDs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.user("UTC", activity.ModeFull), f.user("Asia/Tokyo", activity.ModeFull)
	event := at(noon+3*3600, "go", 1)
	f.upload(a, event)
	f.upload(b, event)
	f.cycle(noon + 90_000)
	f.requireStands(a, utc, event)
	f.requireStands(b, Zones{{0, "Asia/Tokyo"}}, event)
}

func TestOpenRunIsFinalizedAfterADayAndExtendedLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("Europe/Berlin", activity.ModeFull)
	zones := Zones{{0, "Europe/Berlin"}}
	var all []activity.Event
	for s := int64(0); s <= openLimit; s += 800 {
		all = append(all, at(noon+s, "go", 1))
		f.upload(user, all[len(all)-1])
	}
	last := all[len(all)-1].Second()
	f.cycle(last) // merges the marks: the run is as long as it is, whatever it was uploaded in
	f.cycle(noon + openLimit + 901)
	f.requireStands(user, zones, all...)
	more := at(last+600, "go", 1)
	f.upload(user, more)
	f.cycle(last + 600 + 901)
	f.requireStands(user, zones, append(all, more)...)
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM sessions`))
}

func TestScannerMergesTheMarksOfOpenRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	for i := range int64(30) {
		f.upload(user, at(noon+i*60, "go", 1))
	}
	require.Zero(t, f.cycle(noon+29*60+600).Due)
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM hot_runs`))
	require.Equal(t, 1, f.cycle(noon+29*60+901).Finalized)
	require.Zero(t, f.count(`SELECT count(*) FROM hot_runs`))
}

func TestDetailsFollowTheMode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	event := at(noon, "go", 7)
	event.File, event.Project, event.KeyFreq = "src/a.go", "secret", `{"Enter":2,"a":5}`
	full := f.user("UTC", activity.ModeFull)
	f.upload(full, event)
	// Such a row cannot be: the mode change would have erased it. The finalizer does not rely on that alone.
	summary := f.user("UTC", activity.ModeSummary)
	f.upload(summary, event)
	f.cycle(noon + 2000)
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM session_details WHERE user_id = $1
		AND files = '[{"path":"src/a.go","changes":7}]' AND key_counts = '{"a":5,"Enter":2}'`, full))
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM archive_details`))
	require.Zero(t, f.count(`SELECT count(*) FROM session_details WHERE user_id = $1`, summary))

	// Nor can archives hold such a thing, and a session that is rebuilt from one gets no details of it.
	f.exec(`UPDATE users SET privacy = 'off' WHERE id = $1`, full)
	f.upload(full, at(noon+60, "go", 1))
	require.Equal(t, 1, f.cycle(noon+2000).Sessions)
	require.Zero(t, f.count(`SELECT count(*) FROM session_details`)+f.count(`SELECT count(*) FROM archive_details`))
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM sessions WHERE user_id = $1 AND events = 2`, full))
}

func TestLockedUserIsSkipped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user, other := f.user("UTC", activity.ModeFull), f.user("UTC", activity.ModeFull)
	f.upload(user, at(noon, "go", 1))
	f.upload(other, at(noon, "go", 1))
	require.NoError(t, pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, store.WriterLock(user)); err != nil {
			return err
		}
		s := f.cycle(noon + 2000)
		require.Equal(t, 1, s.Skipped)
		require.Equal(t, 1, s.Finalized)
		return nil
	}))
	require.Equal(t, 1, f.cycle(noon+2000).Finalized)
}

func TestUserWhoseDataFailsIsSetAside(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad, good := f.user("Mars/Base", activity.ModeFull), f.user("UTC", activity.ModeFull)
	event := at(noon, "go", 1)
	f.upload(bad, event)
	f.upload(good, event)
	s := f.cycle(noon + 2000)
	require.Equal(t, 1, s.Failed)
	require.Equal(t, int64(1), s.SetAside)
	f.requireStands(good, utc, event)

	require.Zero(t, f.cycle(noon+2000).Due, "set aside: not tried in every cycle")
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM events`), "and nothing is lost")

	f.exec(`UPDATE user_zones SET zone = 'Europe/Berlin' WHERE user_id = $1`, bad)
	f.exec(`UPDATE finalize_failures SET next_try_at = now()`)
	s = f.cycle(noon + 2000)
	require.Equal(t, 1, s.Finalized)
	require.Zero(t, s.SetAside)
	f.requireStands(bad, Zones{{0, "Europe/Berlin"}}, event)
}

func TestMissingArchiveSetsAsideAndLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	f.upload(user, at(noon, "go", 1))
	f.cycle(noon + 2000)
	f.exec(`DELETE FROM archives`)
	f.upload(user, at(noon+60, "go", 1))
	require.Equal(t, 1, f.cycle(noon+2000).Failed)
	require.Equal(t, int64(60), f.count(`SELECT seconds FROM totals WHERE period = 'alltime' AND lang = ''`))
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM events`))
}

func TestDeletedUserLeavesNothingHot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	f.upload(user, at(noon, "go", 1))
	f.exec(`DELETE FROM users WHERE id = $1`, user)
	f.cycle(noon + 2000)
	require.Zero(t, f.count(`SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM hot_runs) + (SELECT count(*) FROM sessions)`))
}

func TestLongAndHeavySession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("America/New_York", activity.ModeFull)
	events := make([]activity.Event, 100_000)
	for i := range events {
		events[i] = at(noon+int64(i)/20, fmt.Sprintf("language %d", i%300), 1_000_000)
		events[i].Lines = 1_000_000
		events[i].KeyFreq = `{"Other":1000000}`
		events[i].File = fmt.Sprint(i % 150)
		if i%50 == 0 {
			events[i].Project = strings.Repeat("p", 256)
			events[i].File = fmt.Sprintf("%s/%d", strings.Repeat("𝄞", 1010), i)
		}
	}
	f.upload(user, events...)
	s := f.cycle(noon + 100_000)
	require.Zero(t, s.Failed)
	f.requireStands(user, Zones{{0, "America/New_York"}}, events...)
	// And it can be rebuilt.
	late := at(noon-300, "go", 1)
	f.upload(user, late)
	require.Zero(t, f.cycle(noon+100_000).Failed)
	f.requireStands(user, Zones{{0, "America/New_York"}}, append(events, late)...)
	require.Equal(t, int64(100), f.count(`SELECT jsonb_array_length(files) FROM session_details`))
}

func TestUserAboveTwoBillionSeconds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	f.exec(`INSERT INTO totals VALUES ($1, 'alltime', '1970-01-01', '', 5000000000), ($1, 'alltime', '1970-01-01', 'go', 5000000000)`, user)
	f.upload(user, at(noon, "go", 1))
	require.Zero(t, f.cycle(noon+2000).Failed)
	require.Equal(t, int64(5_000_000_060), f.count(`SELECT seconds FROM totals WHERE period = 'alltime' AND lang = ''`))
}
