package calendar

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func day(t *testing.T, s string) Day {
	t.Helper()
	d, err := ParseDay(s)
	require.NoError(t, err)
	return d
}

func TestPeriodStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		period    Period
		day, want string
	}{
		{PeriodDay, "2026-11-29", "2026-11-29"},
		{PeriodWeek, "2026-11-29", "2026-11-23"}, // a Sunday
		{PeriodWeek, "2026-11-30", "2026-11-30"}, // a Monday
		{PeriodWeek, "2027-01-01", "2026-12-28"}, // ISO weeks cross years
		{PeriodWeek, "1970-01-01", "1969-12-29"},
		{PeriodWeek, "1969-12-28", "1969-12-22"},
		{PeriodMonth, "2024-02-29", "2024-02-01"},
		{PeriodMonth, "2026-12-31", "2026-12-01"},
		{PeriodAllTime, "2026-12-31", "1970-01-01"},
	} {
		require.Equal(t, day(t, c.want), c.period.Start(day(t, c.day)), "%s of %s", c.period, c.day)
	}
}

func TestShift(t *testing.T) {
	t.Parallel()
	require.Equal(t, day(t, "2026-12-01"), PeriodMonth.Shift(day(t, "2027-01-01"), -1))
	require.Equal(t, day(t, "2027-01-01"), PeriodMonth.Shift(day(t, "2026-12-01"), 1))
	require.Equal(t, day(t, "2026-12-28"), PeriodWeek.Shift(day(t, "2027-01-04"), -1))
	require.Equal(t, Day(0), PeriodAllTime.Shift(0, 5))
}

func TestSpansTileTheCalendar(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := Day(rapid.IntRange(-100_000, 100_000).Draw(t, "day"))
		s := SpanOf(rapid.SampledFrom(Periods[:3]).Draw(t, "period"), d)
		end, ok := s.End()
		require.True(t, ok)
		require.LessOrEqual(t, s.StartsOn, d)
		require.Greater(t, end, d)
		previous, ok := s.Previous()
		require.True(t, ok)
		require.Equal(t, previous, SpanOf(s.Period, s.StartsOn-1))
		require.Equal(t, end, s.Period.Start(end))
	})
}

func TestKept(t *testing.T) {
	t.Parallel()
	// 23:30 in New York on a Sunday is already Monday in UTC.
	now := time.Date(2026, 11, 30, 4, 30, 0, 0, time.UTC).In(time.FixedZone("", -5*3600))
	var got []string
	for _, s := range Kept(now) {
		got = append(got, string(s.Period)+" "+s.StartsOn.String())
	}
	require.Equal(t, []string{
		"day 2026-11-29", "day 2026-11-30", "day 2026-12-01",
		"week 2026-11-23", "week 2026-11-30", "week 2026-12-07",
		"month 2026-10-01", "month 2026-11-01", "month 2026-12-01",
		"alltime 1970-01-01",
	}, got)
}

func TestDayOfUsesTheTimesOwnZone(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC)
	require.Equal(t, "2026-03-01", DayOf(at).String())
	require.Equal(t, "2026-03-02", DayOf(at.In(time.FixedZone("", 3600))).String())
	require.Equal(t, "1969-12-31", DayOf(time.Unix(-1, 0).UTC()).String())
}

func TestDayIsAPostgresDate(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"1969-12-31", "1970-01-01", "2024-02-29"} {
		v, err := day(t, s).DateValue()
		require.NoError(t, err)
		var back Day
		require.NoError(t, back.ScanDate(v))
		require.Equal(t, s, back.String())
	}
	var d Day
	require.Error(t, d.ScanDate(pgtype.Date{}))
	require.Error(t, d.ScanDate(pgtype.Date{Valid: true, InfinityModifier: pgtype.Infinity}))
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "2026-2-1", "2026-02-30", "yesterday"} {
		_, err := ParseDay(bad)
		require.Error(t, err, bad)
	}
	_, err := ParsePeriod("year")
	require.Error(t, err)
	p, err := ParsePeriod("alltime")
	require.NoError(t, err)
	require.Equal(t, PeriodAllTime, p)
}
