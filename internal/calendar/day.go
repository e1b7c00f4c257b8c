// Package calendar does the arithmetic of local days and of the periods that totals and boards are kept for. It is pure:
// no I/O, no clock, and no time zone but the one it is given.
package calendar

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Day is a calendar date, counted in days from 1970-01-01. It belongs to no time zone: which instants it covers is
// decided by the zone it is read in.
type Day int32

const secondsPerDay = 24 * 60 * 60

// DayOf is the date of t in t's own location.
func DayOf(t time.Time) Day {
	_, offset := t.Zone()
	return dayOfLocal(t.Unix() + int64(offset))
}

// Date is the day of a year, month and day of the month; values outside their ranges are normalised as time.Date does.
func Date(year int, month time.Month, day int) Day {
	return DayOf(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

// ParseDay reads a date written as 2006-01-02.
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, fmt.Errorf("parse date: want YYYY-MM-DD")
	}
	return DayOf(t), nil
}

// dayOfLocal is the day that holds a second counted on a clock without zones.
func dayOfLocal(sec int64) Day {
	d := sec / secondsPerDay
	if sec%secondsPerDay < 0 {
		d--
	}
	return Day(d)
}

// Midnight is the day's first instant in UTC.
func (d Day) Midnight() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// String is the day as 2006-01-02.
func (d Day) String() string { return d.Midnight().Format(time.DateOnly) }

// MarshalText implements encoding.TextMarshaler.
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Day) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDay(string(b))
	return err
}

// DateValue implements pgtype.DateValuer, so that a Day is a Postgres date.
func (d Day) DateValue() (pgtype.Date, error) {
	return pgtype.Date{Time: d.Midnight(), Valid: true}, nil
}

// ScanDate implements pgtype.DateScanner.
func (d *Day) ScanDate(v pgtype.Date) error {
	if !v.Valid || v.InfinityModifier != pgtype.Finite {
		return fmt.Errorf("scan date: not a finite date")
	}
	*d = DayOf(v.Time.UTC())
	return nil
}
