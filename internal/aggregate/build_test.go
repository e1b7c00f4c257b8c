package aggregate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/calendar"
)

// at is an event in a language at a second.
func at(second int64, lang string, keystrokes int32) activity.Event {
	return activity.Event{ID: uuid.New(), TS: second * 1000, Lang: lang, Keystrokes: keystrokes}
}

func build(t *testing.T, zone string, events ...activity.Event) []Session {
	t.Helper()
	sessions, err := Build(Fold(events), Zones{{0, zone}})
	require.NoError(t, err)
	return sessions
}

func unix(t *testing.T, zone, local string) int64 {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	ts, err := time.ParseInLocation("2006-01-02 15:04:05", local, loc)
	require.NoError(t, err)
	return ts.Unix()
}

const noon = 1_700_000_000 - 1_700_000_000%86400 + 12*3600

func TestSessionBoundary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gapMS    int64
		sessions int
	}{{899_000, 1}, {900_000, 1}, {900_999, 1}, {901_000, 2}} {
		t.Run(fmt.Sprint(c.gapMS), func(t *testing.T) {
			t.Parallel()
			a, b := at(noon, "go", 1), at(noon, "go", 1)
			b.TS += c.gapMS
			require.Len(t, build(t, "UTC", a, b), c.sessions)
		})
	}
}

func TestTimestampsAreFlooredToTheSecond(t *testing.T) {
	t.Parallel()
	// 900.001 s apart, and yet the floored seconds differ by 901: that ends the session.
	a, b := at(noon, "go", 1), at(noon+901, "go", 1)
	a.TS += 999
	require.Len(t, build(t, "UTC", a, b), 2)

	s := build(t, "UTC", a)[0]
	require.Equal(t, int64(noon-60), s.StartedAt())
	require.Equal(t, int64(60), s.Duration(), "a session of one event lasts 60 s")
}

func TestSessionBeginsAWindowBeforeItsFirstEvent(t *testing.T) {
	t.Parallel()
	s := build(t, "UTC", at(noon, "go", 1), at(noon+500, "go", 1))[0]
	require.Equal(t, int64(noon-60), s.StartedAt())
	require.Equal(t, int64(noon+500), s.Last)
	require.Equal(t, int64(560), s.Duration())
}

func TestSliceBelongsToTheEventsAtItsRightEnd(t *testing.T) {
	t.Parallel()
	day := calendar.DayOf(time.Unix(noon, 0).UTC())
	s := build(t, "UTC", at(noon, "go", 5), at(noon+100, "rust", 1), at(noon+300, "c", 0))[0]
	require.Equal(t, map[DayLang]int64{{day, "go"}: 60, {day, "rust"}: 100, {day, "c"}: 200}, s.Seconds)
	require.Equal(t, "c", s.TopLang)
}

func TestShares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		events []activity.Event
		want   map[string]int64 // of the 60 s before them
	}{
		{"by keystrokes", []activity.Event{at(noon, "a", 1), at(noon, "b", 3)}, map[string]int64{"a": 15, "b": 45}},
		{"equally per event when all are zero", []activity.Event{at(noon, "a", 0), at(noon, "a", 0), at(noon, "b", 0)}, map[string]int64{"a": 40, "b": 20}},
		{"nothing for zero beside others", []activity.Event{at(noon, "a", 0), at(noon, "b", 1)}, map[string]int64{"b": 60}},
		{"largest remainder", []activity.Event{at(noon, "a", 1), at(noon, "b", 6)}, map[string]int64{"a": 9, "b": 51}},              // 8.57, 51.43
		{"tie goes to the smaller key", []activity.Event{at(noon, "b", 77), at(noon, "a", 43)}, map[string]int64{"a": 22, "b": 38}}, // 21.5, 38.5
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := map[string]int64{}
			for k, n := range build(t, "UTC", c.events...)[0].Seconds {
				got[k.Lang] += n
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestLocalMidnightCutsASlice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, zone, local string
		want              map[string]int64 // per day, for an event at local: its 60 s
	}{
		{"a second before", "Europe/Berlin", "2026-03-10 23:59:59", map[string]int64{"2026-03-10": 60}},
		{"at midnight", "Europe/Berlin", "2026-03-11 00:00:00", map[string]int64{"2026-03-10": 60}},
		{"a second after", "Europe/Berlin", "2026-03-11 00:00:01", map[string]int64{"2026-03-10": 59, "2026-03-11": 1}},
		{"a minute after", "Europe/Berlin", "2026-03-11 00:01:00", map[string]int64{"2026-03-11": 60}},
		{"half-hour zone", "Asia/Kolkata", "2026-03-11 00:00:30", map[string]int64{"2026-03-10": 30, "2026-03-11": 30}},
		// 2018-11-04 began at 01:00 in Brazil: 23:59:59 is followed by 01:00:00.
		{"midnight is skipped", "America/Sao_Paulo", "2018-11-04 01:00:20", map[string]int64{"2018-11-03": 40, "2018-11-04": 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := map[string]int64{}
			for k, n := range build(t, c.zone, at(unix(t, c.zone, c.local), "go", 1))[0].Seconds {
				got[k.Day.String()] += n
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestDaysAcrossClockChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, zone, day string
		hours           int64
	}{
		{"spring forward", "Europe/Berlin", "2026-03-29", 23},
		{"fall back", "Europe/Berlin", "2026-10-25", 25},
		{"half an hour", "Australia/Lord_Howe", "2026-04-05", 0}, // 24.5 hours, checked below in seconds
		{"back over midnight", "America/Sao_Paulo", "2018-02-17", 25},
		{"forward at midnight", "America/Sao_Paulo", "2018-11-04", 23},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			day, err := calendar.ParseDay(c.day)
			require.NoError(t, err)
			loc, err := time.LoadLocation(c.zone)
			require.NoError(t, err)
			want := c.hours * 3600
			if want == 0 {
				want = 24*3600 + 1800
			}
			require.Equal(t, want, secondsOf(loc, day))
		})
	}
}

// secondsOf adds up every stretch around day on which the local date is day.
func secondsOf(loc *time.Location, day calendar.Day) int64 {
	var sum int64
	for s := day.Midnight().Unix() - 2*86400; s < day.Midnight().Unix()+3*86400; {
		d, until := dateStretch(loc, s)
		if d == day {
			sum += until - s
		}
		s = until
	}
	return sum
}

func TestZoneAtTheFirstEventDecides(t *testing.T) {
	t.Parallel()
	zones := Zones{{0, "UTC"}, {noon, "Asia/Tokyo"}}
	for _, c := range []struct {
		first int64
		want  string
	}{{noon - 1, "UTC"}, {noon, "Asia/Tokyo"}, {noon + 1, "Asia/Tokyo"}} {
		sessions, err := Build(Fold([]activity.Event{at(c.first, "go", 1), at(noon+300, "go", 1)}), zones)
		require.NoError(t, err)
		require.Equal(t, c.want, sessions[0].Zone)
	}
	_, err := Build(Fold([]activity.Event{at(noon, "go", 1)}), Zones{{0, "Mars/Base"}})
	require.ErrorIs(t, err, errUnknownZone)
}

func TestPeakMinute(t *testing.T) {
	t.Parallel()
	s := build(t, "UTC", at(noon+10, "go", 30), at(noon+59, "go", 30), at(noon+60, "go", 59), at(noon+180, "go", 60))[0]
	require.Equal(t, int64(noon), s.PeakMinute)
	require.Equal(t, int64(60), s.PeakCount)
	require.Equal(t, int64(179), s.Keystrokes)
}

func TestSumsPass32Bits(t *testing.T) {
	t.Parallel()
	var events []activity.Event
	for i := range int64(5000) {
		e := at(noon+i, "go", 1_000_000)
		e.Lines, e.KeyFreq = 1_000_000, `{"a":1000000}`
		events = append(events, e)
	}
	s := build(t, "UTC", events...)[0]
	require.Equal(t, int64(5_000_000_000), s.Keystrokes)
	require.Equal(t, int64(5_000_000_000), s.Lines)
	d, err := detailsOf(s.Events)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":5000000000}`, string(d.keyCounts))
}

func TestFoldKeepsTheSmallestCopy(t *testing.T) {
	t.Parallel()
	base := activity.Event{ID: uuid.New(), TS: 5, Lang: "go", Keystrokes: 7, Lines: 7, Project: "p", File: "f", KeyFreq: "k"}
	smaller := []func(*activity.Event){
		func(e *activity.Event) { e.Lang = "c" },
		func(e *activity.Event) { e.Keystrokes = 6 },
		func(e *activity.Event) { e.Lines = -8 },
		func(e *activity.Event) { e.Project = "" },
		func(e *activity.Event) { e.File = "" },
		func(e *activity.Event) { e.KeyFreq = "" },
	}
	for i, change := range smaller {
		want := base
		change(&want)
		// What comes later in the order may not outweigh it.
		for _, undo := range smaller[i+1:] {
			_ = undo
			want.KeyFreq = "zzz"
		}
		if i == len(smaller)-1 {
			want.KeyFreq = ""
		}
		require.Equal(t, []activity.Event{want}, Fold([]activity.Event{base, want, base}))
		require.Equal(t, []activity.Event{want}, Fold([]activity.Event{want, base, want}))
	}
	other := base
	other.TS++
	require.Len(t, Fold([]activity.Event{other, base}), 2, "the timestamp is part of the identity")
}

var propertyZones = []string{
	"UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns",
	"Pacific/Kiritimati", "Africa/Casablanca", "Asia/Kathmandu", "America/Havana", "Asia/Beirut",
}

// drawEvents draws a user's events over a few days, dense enough for sessions to touch, with many in one second.
func drawEvents(t *rapid.T) []activity.Event {
	base := rapid.SampledFrom([]int64{1_541_286_000, 1_325_203_200, 1_774_746_000, 1_700_000_000}).Draw(t, "base")
	n := rapid.IntRange(1, 60).Draw(t, "n")
	events := make([]activity.Event, n)
	second := base
	for i := range events {
		second += rapid.SampledFrom([]int64{0, 0, 1, 59, 60, 61, 300, 899, 900, 901, 3600, 30000}).Draw(t, "gap")
		events[i] = activity.Event{
			TS:         second*1000 + rapid.Int64Range(0, 999).Draw(t, "ms"),
			Lang:       rapid.SampledFrom([]string{"c", "c#", "c++", "go", "unknown"}).Draw(t, "lang"),
			Keystrokes: rapid.SampledFrom([]int32{0, 0, 1, 2, 3, 7, 100, 1_000_000}).Draw(t, "keystrokes"),
			File:       rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "file"),
		}
		events[i].ID[0], events[i].ID[1] = byte(i), byte(rapid.IntRange(0, 3).Draw(t, "id"))
	}
	return events
}

func drawZones(t *rapid.T, events []activity.Event) Zones {
	zones := Zones{{0, rapid.SampledFrom(propertyZones).Draw(t, "zone")}}
	if rapid.Bool().Draw(t, "moves") {
		from := rapid.SampledFrom(events).Draw(t, "when").Second() + rapid.Int64Range(-1, 1).Draw(t, "off by")
		zones = append(zones, ZoneChange{from, rapid.SampledFrom(propertyZones).Draw(t, "next zone")})
	}
	return zones
}

func TestSecondsAlwaysAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		zones := drawZones(t, events)
		sessions, err := Build(Fold(slices.Clone(events)), zones)
		require.NoError(t, err)
		var total int64
		days := map[DayLang]int64{}
		for i, s := range sessions {
			var sum int64
			for k, n := range s.Seconds {
				require.Positive(t, n)
				sum += n
				days[k] += n
			}
			require.Equal(t, s.Duration(), sum, "languages add up to the session")
			total += sum
			if i > 0 {
				require.Greater(t, s.StartedAt(), sessions[i-1].Last, "sessions never overlap")
			}
		}
		for _, d := range totalDeltas(days) {
			if d.lang == "" && d.span.Period == calendar.PeriodAllTime {
				require.Equal(t, total, d.seconds, "days add up to all time")
			}
		}
	})
}

func TestOrderAndCopiesChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		zones := drawZones(t, events)
		want, err := Build(Fold(slices.Clone(events)), zones)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for range r.IntN(5) {
			events = append(events, events[r.IntN(len(events))])
		}
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		got, err := Build(Fold(events), zones)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
