package tests

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/tests/model"
)

// same books by how much two numbers differ that must be one.
func (r *reading) same(u *reader, what string, want, got int64) {
	r.t.Helper()
	if want != got {
		r.found.Drift += max(want-got, got-want)
		r.t.Logf("%s of %s: %d and %d", what, u.handle, want, got)
	}
}

// compare reads all numbers of a user.
func (r *reading) compare(u *reader) {
	r.t.Helper()
	sessions := u.model.Sessions()
	totals := model.Totals(sessions)
	var want int64
	for _, s := range sessions {
		want += s.End - s.Start
	}
	n, seconds := r.sessions(u.token, "/v1/sessions")
	r.found.Expected += int64(len(sessions))
	r.found.Found += n
	r.same(u, "sessions", int64(len(sessions)), n)
	r.same(u, "seconds of sessions", want, seconds)
	r.profile(u, u.token, n, want)

	days := r.allDays(u, u.token, totals)
	for _, p := range calendar.Periods {
		sums := map[calendar.Day]int64{}
		for d, s := range days {
			sums[p.Start(d)] += s
		}
		for _, start := range slices.Sorted(maps.Keys(sums)) {
			of := fmt.Sprintf("%s of %s", p, start)
			r.same(u, of+" by the model", totals[model.Total{Period: model.Period(p), StartsOn: model.Day(start)}], sums[start])
			r.board(u, of, calendar.Span{Period: p, StartsOn: start}, sums[start])
			if p == calendar.PeriodWeek {
				r.recap(u, start, sums[start])
			}
		}
	}
	r.asOthersSee(u, n, want, totals)
}

// asOthersSee compares what everybody sees of a user, or that nobody does.
func (r *reading) asOthersSee(u *reader, n, want int64, totals map[model.Total]int64) {
	r.t.Helper()
	if u.model.Mode() == model.Off {
		for _, path := range []string{"/v1/users/" + u.handle, "/v1/users/" + u.handle + "/sessions", "/v1/heatmap?handle=" + u.handle} {
			if status, _ := call(r.t, http.MethodGet, r.base+path, "", ""); status != http.StatusNotFound {
				r.found.Leaked++
			}
		}
		return
	}
	r.profile(u, "", n, want)
	others, seconds := r.sessions("", "/v1/users/"+u.handle+"/sessions")
	r.same(u, "sessions that others see", n, others)
	r.same(u, "seconds that others see", want, seconds)
	r.allDays(u, "", totals)
}

// sessions walks all pages of a list.
func (r *reading) sessions(token, path string) (n, seconds int64) {
	r.t.Helper()
	for cursor, more := "", true; more; {
		p := r.page(token, path+"?limit=7", cursor)
		for _, s := range p.Sessions {
			n++
			seconds += s.Duration
			if s.Duration != s.EndedAt.Unix()-s.StartedAt.Unix() {
				r.found.Drift++
			}
		}
		if more = p.Next != nil; more {
			cursor = *p.Next
		}
	}
	return n, seconds
}

func (r *reading) profile(u *reader, token string, sessions, seconds int64) {
	r.t.Helper()
	var p struct {
		Stats struct {
			Sessions int64 `json:"total_sessions"`
			Seconds  int64 `json:"total_duration_s"`
		}
		Streak struct {
			Longest int64 `json:"longest_days"`
		}
	}
	r.get(token, "/v1/users/"+u.handle, &p)
	r.same(u, "sessions on the profile", sessions, p.Stats.Sessions)
	r.same(u, "seconds on the profile", seconds, p.Stats.Seconds)
	r.same(u, "longest streak", model.StreakOf(u.model.Sessions()).Longest(), p.Streak.Longest)
}

// heatmapDays are the days of a heatmap.
type heatmapDays struct {
	Duration int64 `json:"duration_s"`
	Days     []struct {
		Date     calendar.Day
		Duration int64 `json:"duration_s"`
	}
}

func (r *reading) heatmap(token, query string) (h heatmapDays) {
	r.t.Helper()
	r.get(token, "/v1/heatmap?"+query, &h)
	return h
}

// allDays reads the heatmaps of all years in which the user has been active, the user's own with a token.
func (r *reading) allDays(u *reader, token string, totals map[model.Total]int64) map[calendar.Day]int64 {
	r.t.Helper()
	years := map[string]bool{}
	for t := range totals {
		if t.Period == model.Period(calendar.PeriodDay) {
			year, _, _ := strings.Cut(t.StartsOn.String(), "-")
			years[year] = true
		}
	}
	days, whose := map[calendar.Day]int64{}, ""
	if token == "" {
		whose = "&handle=" + u.handle
	}
	var sum, told int64
	for year := range years {
		h := r.heatmap(token, "year="+year+whose)
		told += h.Duration
		for _, d := range h.Days {
			sum += d.Duration
			if d.Duration > 0 {
				days[d.Date] = d.Duration
			}
		}
	}
	r.same(u, "all time, by days", totals[model.Total{Period: model.Period(calendar.PeriodAllTime)}], sum)
	r.same(u, "sums of heatmaps", sum, told)
	return days
}

// board reads the user's place on a board. Who is on off has none.
func (r *reading) board(u *reader, what string, span calendar.Span, want int64) {
	r.t.Helper()
	var page struct {
		Me *struct {
			Duration int64 `json:"duration_s"`
		}
	}
	r.get(u.token, fmt.Sprintf("/v1/leaderboard?period=%s&starts_on=%s&around=me&limit=1", span.Period, span.StartsOn), &page)
	switch {
	case u.model.Mode() == model.Off && page.Me != nil:
		r.found.Leaked++
	case u.model.Mode() == model.Off:
	case page.Me == nil:
		r.same(u, "place on the board, "+what, want, 0)
	default:
		r.same(u, "board, "+what, want, page.Me.Duration)
	}
}

// recap compares the recap of a week, once the contract has one.
func (r *reading) recap(u *reader, monday calendar.Day, want int64) {
	r.t.Helper()
	if !r.recaps {
		return
	}
	var week struct {
		Duration int64 `json:"total_duration_s"`
	}
	r.get(u.token, "/v1/recap?week="+monday.String(), &week)
	r.same(u, fmt.Sprintf("recap of %s", monday), want, week.Duration)
}
