package model

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ev is an event at a second: of a language, with so many keystrokes.
func ev(second int64, lang string, keystrokes int64) Event {
	return Event{ID: fmt.Sprintf("%d %s %d", second, lang, keystrokes), MS: second * 1000, Lang: lang, Keystrokes: keystrokes}
}

func userWith(zone string, events ...Event) *User {
	u := NewUser(zone)
	for _, e := range events {
		u.Upload(e)
	}
	return u
}

func day(t *testing.T, s string) Day {
	t.Helper()
	d, err := ParseDay(s)
	require.NoError(t, err)
	return d
}

func utc(t *testing.T, s string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return at.Unix()
}

func TestSessionsEndAfterMoreThanIdle(t *testing.T) {
	t.Parallel()
	u := userWith("UTC", ev(2801, "go", 1), ev(1000, "go", 1))
	u.Upload(Event{ID: "half", MS: 1900_999, Lang: "go", Keystrokes: 3, Lines: -2})
	got := u.Sessions()
	require.Len(t, got, 2)
	require.Equal(t, Session{Stretch: Stretch{1000, 1900}, Start: 940, End: 1900, Zone: "UTC", Events: 2, Keystrokes: 4, Lines: -2,
		Seconds: Seconds{{0, "go"}: 960}}, got[0])
	require.Equal(t, []int64{2741, 2801, 60}, []int64{got[1].Start, got[1].End, got[1].Seconds[DayLang{0, "go"}]})
	require.Len(t, u.Ended(2800), 0, "900 seconds after the first one's last event")
	require.Len(t, u.Ended(2801), 1)
}

func TestSecondsAreFloored(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]int64{0: 0, 999: 0, 1000: 1, -1: -1, -1000: -1, -1001: -2} {
		require.Equal(t, want, Event{MS: ms}.Second(), ms)
	}
}

// Worked by hand: the first column is what the slices are, the last what each language must get of them.
func TestSlicesAreShared(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []Event
		want   Seconds
	}{
		"60 s, 1 to 2":           {[]Event{ev(1000, "go", 1), ev(1000, "c", 2)}, Seconds{{0, "go"}: 20, {0, "c"}: 40}},
		"60 s, 1 to 6":           {[]Event{ev(1000, "go", 1), ev(1000, "c", 6)}, Seconds{{0, "go"}: 9, {0, "c"}: 51}},
		"no keys: by events":     {[]Event{ev(1000, "go", 0), {ID: "2", MS: 1000_500, Lang: "go"}, ev(1000, "c", 0)}, Seconds{{0, "go"}: 40, {0, "c"}: 20}},
		"one has keys":           {[]Event{ev(1000, "go", 0), ev(1000, "c", 1)}, Seconds{{0, "c"}: 60}},
		"then 10 s, a third":     {[]Event{ev(1000, "d", 1), ev(1010, "c++", 1), ev(1010, "c", 1), ev(1010, "c#", 1)}, Seconds{{0, "d"}: 60, {0, "c"}: 4, {0, "c#"}: 3, {0, "c++"}: 3}},
		"then 1 s, halves":       {[]Event{ev(1000, "d", 1), ev(1001, "b", 7), ev(1001, "a", 7)}, Seconds{{0, "d"}: 60, {0, "a"}: 1}},
		"the right end owns":     {[]Event{ev(1000, "a", 9), ev(1300, "b", 1)}, Seconds{{0, "a"}: 60, {0, "b"}: 300}},
		"31 and 29 s, midnight":  {[]Event{ev(86429, "b", 1), ev(86429, "a", 1)}, Seconds{{0, "a"}: 16, {0, "b"}: 15, {1, "a"}: 15, {1, "b"}: 14}},
		"ends at midnight":       {[]Event{ev(86400, "a", 1)}, Seconds{{0, "a"}: 60}},
		"a second past midnight": {[]Event{ev(86401, "a", 1)}, Seconds{{0, "a"}: 59, {1, "a"}: 1}},
	} {
		got := userWith("UTC", c.events...).Sessions()
		require.Len(t, got, 1, name)
		require.Equal(t, c.want, got[0].Seconds, name)
	}
}

// An event's 60 s, cut where the local date changes.
func TestZonesCutDays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		zone, at string
		want     map[string]int64
	}{
		"Berlin's midnight in winter":        {"Europe/Berlin", "2025-01-01T23:00:20Z", map[string]int64{"2025-01-01": 40, "2025-01-02": 20}},
		"Berlin's midnight in summer":        {"Europe/Berlin", "2025-07-01T22:00:20Z", map[string]int64{"2025-07-01": 40, "2025-07-02": 20}},
		"a day that begins at 01:00":         {"America/Sao_Paulo", "2018-11-04T03:00:10Z", map[string]int64{"2018-11-03": 50, "2018-11-04": 10}},
		"midnight that is 23:00 again":       {"America/Sao_Paulo", "2018-02-18T02:00:10Z", map[string]int64{"2018-02-17": 60}},
		"and an hour later":                  {"America/Sao_Paulo", "2018-02-18T03:00:10Z", map[string]int64{"2018-02-17": 50, "2018-02-18": 10}},
		"a day that never was":               {"Pacific/Apia", "2011-12-30T10:00:10Z", map[string]int64{"2011-12-29": 50, "2011-12-31": 10}},
		"00:01 that is 23:01 the day before": {"America/St_Johns", "2006-10-29T02:31:30Z", map[string]int64{"2006-10-28": 30, "2006-10-29": 30}},
	} {
		want := Seconds{}
		for d, n := range c.want {
			want[DayLang{day(t, d), "go"}] = n
		}
		require.Equal(t, want, userWith(c.zone, ev(utc(t, c.at), "go", 1)).Sessions()[0].Seconds, name)
	}
}

func TestZoneOfTheFirstEventCounts(t *testing.T) {
	t.Parallel()
	u := userWith("UTC", ev(4999, "go", 1))
	u.SetZone(5000, "Asia/Tokyo")
	u.SetZone(9000, "Asia/Tokyo")
	u.SetZone(9000, "Europe/Berlin")
	u.Upload(ev(5100, "go", 1))
	require.Equal(t, "UTC", u.Sessions()[0].Zone)
	u = userWith("UTC", ev(5000, "go", 1), ev(9000, "go", 1))
	u.SetZone(9000, "Europe/Berlin")
	u.SetZone(5000, "Asia/Tokyo")
	require.Equal(t, "Asia/Tokyo", u.Sessions()[0].Zone)
	require.Equal(t, "Europe/Berlin", u.Sessions()[1].Zone)
}

func TestSmallestCopyCounts(t *testing.T) {
	t.Parallel()
	a, b := "a", "b"
	sorted := []Event{
		{Lang: "c", Keystrokes: 9}, {Lang: "go", Keystrokes: 1, Lines: 5}, {Lang: "go", Keystrokes: 2, Lines: -1}, {Lang: "go", Keystrokes: 10},
		{Lang: "go", Keystrokes: 10, File: &a}, {Lang: "go", Keystrokes: 10, Project: &a}, {Lang: "go", Keystrokes: 10, Project: &a, Keys: &a},
		{Lang: "go", Keystrokes: 10, Project: &a, File: &a}, {Lang: "go", Keystrokes: 10, Project: &b},
	}
	for i, small := range sorted {
		for _, big := range sorted[i+1:] {
			for _, order := range [][]Event{{small, big, small}, {big, small, big}} {
				u := userWith("UTC", order...)
				require.Equal(t, small, u.events[identity{}])
				require.Len(t, u.events, 1)
			}
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	text := "x"
	u := userWith("UTC", Event{ID: "1", MS: 1000, File: &text, Lang: "go"})
	require.NotNil(t, u.counting()[0].File)
	u.SetMode(Off)
	require.False(t, u.Upload(ev(2000, "go", 1)))
	require.Nil(t, u.counting()[0].File)
	users := map[string]*User{"a": u, "b": userWith("UTC", ev(5, "c", 1))}
	require.Equal(t, map[string]int64{"b": 60}, Board(users, Total{AllTime, 0, ""}))
	u.SetMode(Summary)
	require.True(t, u.Upload(Event{ID: "2", MS: 1000, Project: &text, Lang: "go"}))
	require.Len(t, u.counting(), 2)
	require.Equal(t, map[string]int64{"a": 60, "b": 60}, Board(users, Total{AllTime, 0, ""}))
	require.Equal(t, map[string]int64{"b": 55}, Board(users, Total{PerDay, -1, "c"}))
}

func TestDeleteTakesEventsNowAndLater(t *testing.T) {
	t.Parallel()
	u := userWith("UTC", ev(1000, "go", 1), ev(1500, "go", 1))
	u.Delete(Stretch{1000, 1500})
	require.Empty(t, u.Sessions())
	for _, second := range []int64{999, 1000, 1200, 1500, 1501} {
		u.Upload(ev(second, "c", 1))
	}
	require.Equal(t, []Stretch{{999, 1501}}, []Stretch{u.Sessions()[0].Stretch})
	require.Equal(t, int64(2), u.Sessions()[0].Events)
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	for d, want := range map[string][]string{
		"2026-11-29": {"2026-11-29", "2026-11-23", "2026-11-01", "1970-01-01"}, // a Sunday
		"2026-11-30": {"2026-11-30", "2026-11-30", "2026-11-01", "1970-01-01"},
		"2021-01-01": {"2021-01-01", "2020-12-28", "2021-01-01", "1970-01-01"},
		"2024-02-29": {"2024-02-29", "2024-02-26", "2024-02-01", "1970-01-01"},
	} {
		var got []string
		for _, p := range Periods {
			got = append(got, p.Start(day(t, d)).String())
		}
		require.Equal(t, want, got)
	}
}

func TestStreaks(t *testing.T) {
	t.Parallel()
	at := func(days ...int64) (s []Session) {
		for _, d := range days {
			s = append(s, Session{Seconds: Seconds{{Day(d), "go"}: 1, {Day(d), "c"}: 1}})
		}
		return s
	}
	s := StreakOf(at(12, 10, 11, 20, 21))
	require.Equal(t, int64(3), s.Longest())
	for today, want := range map[Day]int64{19: 2, 20: 2, 21: 2, 22: 2, 23: 0, 24: 0} {
		require.Equal(t, want, s.Current(today), today)
	}
	require.Equal(t, int64(1), StreakOf(at(10, 11, 13)).Current(14))
	require.Zero(t, StreakOf(nil).Longest())
}

func TestTotalsAddUp(t *testing.T) {
	t.Parallel()
	// Two minutes around the end of January 2027, a Sunday: half of it in each day, week and month.
	first := utc(t, "2027-01-31T23:59:30Z")
	totals := Totals(userWith("UTC", ev(first, "go", 1), ev(first+60, "c", 1)).Sessions())
	jan, feb := day(t, "2027-01-31"), day(t, "2027-02-01")
	want := map[Total]int64{}
	for _, p := range []Period{PerDay, PerWeek, PerMonth} {
		want[Total{p, p.Start(jan), ""}], want[Total{p, p.Start(feb), ""}] = 90, 30
		want[Total{p, p.Start(jan), "go"}], want[Total{p, p.Start(jan), "c"}], want[Total{p, p.Start(feb), "c"}] = 60, 30, 30
	}
	want[Total{AllTime, 0, ""}], want[Total{AllTime, 0, "go"}], want[Total{AllTime, 0, "c"}] = 120, 60, 60
	require.Equal(t, want, totals)
}

func TestLineage(t *testing.T) {
	t.Parallel()
	l := NewLineage()
	require.Empty(t, l.See([]Standing{{"a", Stretch{0, 10}}, {"b", Stretch{2000, 2010}}}, nil, true))
	require.Empty(t, l.See([]Standing{{"a", Stretch{0, 2010}}}, map[string]string{"b": "a"}, true))
	require.Empty(t, l.See([]Standing{{"z", Stretch{-5000, -4000}}, {"a", Stretch{0, 2010}}}, map[string]string{"b": "a"}, true))
	require.Empty(t, l.See([]Standing{{"z", Stretch{-5000, 2010}}}, map[string]string{"b": "z", "a": "z"}, true))
	require.Equal(t, "z", l.Heir("b"))
	l.Delete("z")
	require.Empty(t, l.See(nil, nil, true))

	for name, now := range map[string][]Standing{
		"the later id survives": {{"b", Stretch{0, 2010}}},
		"a new id":              {{"c", Stretch{0, 2010}}},
		"one is gone":           {{"a", Stretch{0, 10}}},
		"ids change places":     {{"b", Stretch{0, 10}}, {"a", Stretch{2000, 2010}}},
		"no alias":              {{"a", Stretch{0, 2010}}},
	} {
		l := NewLineage()
		require.Empty(t, l.See([]Standing{{"a", Stretch{0, 10}}, {"b", Stretch{2000, 2010}}}, nil, true))
		require.NotEmpty(t, l.See(now, nil, true), name)
	}
}
