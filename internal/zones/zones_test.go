package zones

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
)

// Before the tests, ZONEINFO points at a directory in which Berlin is Tokyo: set here and not in a test, because the
// standard library reads it once.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "zones")
	if err == nil {
		err = doctor(dir)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func doctor(dir string) error {
	loc := filepath.Join(dir, "Europe", "Berlin")
	if err := os.MkdirAll(filepath.Dir(loc), 0o755); err != nil {
		return err
	}
	tokyo, err := data("Asia/Tokyo")
	if err != nil {
		return err
	}
	if err := os.WriteFile(loc, tokyo, 0o644); err != nil {
		return err
	}
	return os.Setenv("ZONEINFO", dir)
}

func TestMachineDoesNotMatter(t *testing.T) {
	t.Parallel()
	winter := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	hour := func(loc *time.Location) int { return winter.In(loc).Hour() }

	machine, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	require.Equal(t, 21, hour(machine), "the standard library must have been misled, or this test shows nothing")
	berlin, err := Load("Europe/Berlin")
	require.NoError(t, err)
	require.Equal(t, 13, hour(berlin))
	require.Equal(t, 14, winter.AddDate(0, 6, 0).In(berlin).Hour())
}

func TestLoad(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{ // hours east of UTC in January 2026
		"UTC": 0, "Etc/UTC": 0, "Zulu": 0, "GMT0": 0, "Europe/Kiev": 2, "Europe/Kyiv": 2, "US/Pacific": -8, "GB": 0,
		"America/Buenos_Aires": -3, "America/Argentina/ComodRivadavia": -3, "Etc/GMT-14": 14, "EST5EDT": -5,
		"America/North_Dakota/New_Salem": -6,
	} {
		loc, err := Load(name)
		require.NoError(t, err, name)
		_, offset := time.Date(2026, 1, 15, 12, 0, 0, 0, loc).Zone()
		require.Equal(t, want*3600, offset, name)
		require.Equal(t, name, loc.String())
		again, err := Load(name)
		require.NoError(t, err)
		require.Same(t, loc, again)
	}
	calcutta, err := Load("Asia/Calcutta")
	require.NoError(t, err)
	_, offset := time.Date(2026, 1, 15, 12, 0, 0, 0, calcutta).Zone()
	require.Equal(t, 19800, offset)
}

// Old names are as good as those of today: they keep the rules of the same place.
func TestOldNamesAreTheirPlaces(t *testing.T) {
	t.Parallel()
	for old, name := range map[string]string{
		"US/Pacific": "America/Los_Angeles", "Asia/Calcutta": "Asia/Kolkata", "Asia/Katmandu": "Asia/Kathmandu", "GB": "Europe/London",
		"Europe/Kiev": "Europe/Kyiv", "Asia/Saigon": "Asia/Ho_Chi_Minh", "America/Buenos_Aires": "America/Argentina/Buenos_Aires",
		"Brazil/East": "America/Sao_Paulo", "Cuba": "America/Havana", "Pacific/Samoa": "Pacific/Pago_Pago",
	} {
		was, err := Load(old)
		require.NoError(t, err, old)
		is, err := Load(name)
		require.NoError(t, err, name)
		for hours := range 200_000 / 97 { // 22 years
			at := time.Date(2004, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(hours*97) * time.Hour)
			_, a := at.In(was).Zone()
			_, b := at.In(is).Zone()
			require.Equal(t, b, a, "%s at %s", old, at)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Local", "local", "localtime", "Factory", "posix", "posixrules", "posix/Europe/Berlin",
		"right/Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin", "../zoneinfo/UTC", "Europe/../UTC", "..", ".", "./UTC",
		"Europe", "Europe/", "europe/berlin", "utc", " UTC", "UTC\x00", `Europe\Berlin`, "zone.tab", "+02:00",
		strings.Repeat("A", 1<<20)} {
		loc, err := Load(name)
		require.ErrorIs(t, err, ErrUnknown, "%.80q", name)
		require.Nil(t, loc)
	}
}

// Every zone that is there can be read, and nothing is longer than a name may be.
func TestAllZones(t *testing.T) {
	t.Parallel()
	byName, err := files()
	require.NoError(t, err)
	require.Greater(t, len(byName), 590)
	for name := range byName {
		require.LessOrEqual(t, len(name), maxName)
		if name == "Factory" {
			continue
		}
		_, err := Load(name)
		require.NoError(t, err, name)
	}
}

func TestDayAt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 5, 30, 0, 0, time.UTC)
	require.Equal(t, calendar.Date(2025, 12, 31), DayAt(now, "US/Pacific"))
	require.Equal(t, calendar.Date(2026, 1, 1), DayAt(now, "Europe/Berlin"))
	require.Equal(t, calendar.Date(2026, 1, 1), DayAt(now, "Not/AZone"))
}
