package model

import (
	"fmt"
	"sync"
	"time"
)

// Day is a date, as the number of days since 1970-01-01.
type Day int64

const secondsPerDay = 86400

func dateOf(y int, m time.Month, d int) Day {
	return Day(floorDiv(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix(), secondsPerDay))
}

// ParseDay reads 2006-01-02.
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, fmt.Errorf("parse day: %w", err)
	}
	return dateOf(t.Date()), nil
}

func (d Day) utc() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

func (d Day) String() string { return d.utc().Format(time.DateOnly) }

// LocalDay is the date that a zone's clocks show at a second.
func LocalDay(second int64, zone string) Day {
	day, _ := local(second, zone)
	return day
}

func local(second int64, zone string) (day Day, offset int) {
	t := time.Unix(second, 0).In(location(zone))
	_, offset = t.Zone()
	return dateOf(t.Date()), offset
}

// loaded keeps zones, which would be read from a file for each second.
var loaded sync.Map

func location(zone string) *time.Location {
	if loc, ok := loaded.Load(zone); ok {
		return loc.(*time.Location)
	}
	loc, err := time.LoadLocation(zone) //nolint:forbidigo // the model shares nothing with the program that it judges
	if err != nil {
		panic(err) // the tests name only zones that exist
	}
	loaded.Store(zone, loc)
	return loc
}

// Period is a kind of stretch that totals are kept for.
type Period string

// The periods.
const (
	PerDay   Period = "day"
	PerWeek  Period = "week"
	PerMonth Period = "month"
	AllTime  Period = "alltime"
)

// Periods is all of them.
var Periods = []Period{PerDay, PerWeek, PerMonth, AllTime}

// Start is the first day of the period that holds a day; 1970-01-01 for all time.
func (p Period) Start(d Day) Day {
	switch p {
	case PerDay:
		return d
	case PerWeek:
		sinceMonday := (int64(d.utc().Weekday()) + 6) % 7
		return d - Day(sinceMonday)
	case PerMonth:
		return dateOf(d.utc().Year(), d.utc().Month(), 1)
	default:
		return 0
	}
}
