package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/httpapi/api"
)

func TestMeAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{me: func() (account.Facts, error) {
		return account.Facts{
			ID: testUser, Handle: "demo", Mode: activity.ModeSummary, Zone: "Europe/Berlin", CreatedAt: testNow,
			Streak:     account.Streak{CurrentDays: 3, LongestDays: 12, LastActiveDate: ptr(calendar.Date(2026, 6, 16))},
			Rejections: map[string]int64{"in_future": 4},
		}, nil
	}})
	got := b.call(t, http.MethodGet, "/v1/me", "", signedIn())
	require.JSONEq(t, `{"id":"3f0e6a3d-7b0b-4b7d-8d43-5e5f64b1b3a2","handle":"demo","avatar_url":null,"privacy":"summary",
		"timezone":"Europe/Berlin","created_at":"2026-06-17T09:30:00.123Z",
		"streak":{"current_days":3,"longest_days":12,"last_active_date":"2026-06-16"},"rejections_7d":{"in_future":4},
		"email":null,"recap_mail":false}`, got.body)

	got = setup(t, &fake{}).call(t, http.MethodGet, "/v1/me", "", signedIn())
	require.Contains(t, got.body, `"last_active_date":null`)
	require.Contains(t, got.body, `"rejections_7d":{}`)
}

func TestPatchMe(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]account.Change{
		`{}`:                        {},
		`{"privacy":"off"}`:         {Mode: ptr(activity.ModeOff)},
		`{"timezone":"Asia/Tokyo"}`: {Zone: ptr("Asia/Tokyo")},
		`{"handle":"new-1"}`:        {Handle: ptr("new-1")},
		`{"timezone":"US/Pacific","privacy":"summary"}`: {Mode: ptr(activity.ModeSummary), Zone: ptr("US/Pacific")},
	} {
		var done account.Change
		var scope admission.Scope
		b := setup(t, &fake{
			admit: func(r admission.Request) (admission.Grant, error) {
				scope = r.Scope
				return admission.Grant{UserID: testUser, Limit: testLimit}, nil
			},
			change: func(c account.Change) error { done = c; return nil },
		})
		got := b.call(t, http.MethodPatch, "/v1/me", body, signedIn())
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, want, done, body)
		require.Equal(t, admission.ScopeWrite, scope)
	}
}

// Nothing is changed unless all of the request is understood.
func TestPatchMeRefuses(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]api.ErrorDetail{
		``:                                         {Code: "invalid", Path: []string{}},
		`null`:                                     {Code: "invalid", Path: []string{}},
		`[]`:                                       {Code: "invalid", Path: []string{}},
		`{"privacy":`:                              {Code: "invalid", Path: []string{}},
		strings.Repeat(`{"a":`, 20_000 /* deep */): {},
		`{"privacy":null}`:                         {Code: "invalid", Path: []string{"privacy"}},
		`{"privacy":1}`:                            {Code: "invalid", Path: []string{"privacy"}},
		`{"privacy":"Full"}`:                       {Code: "invalid", Path: []string{"privacy"}},
		`{"privacy":"off","timezone":"Mars/Base"}`: {Code: "invalid", Path: []string{"timezone"}},
		`{"privacy":"off","timezone":"Local"}`:     {Code: "invalid", Path: []string{"timezone"}},
		`{"privacy":"off","timezone":["UTC"]}`:     {Code: "invalid", Path: []string{"timezone"}},
		`{"privacy":"off","name":"new"}`:           {Code: "unknown_field", Path: []string{}},
		`{"privacy":"off","handle":"new one"}`:     {Code: "invalid", Path: []string{"handle"}},
		`{"handle":""}`:                            {Code: "invalid", Path: []string{"handle"}},
		`{"handle":null}`:                          {Code: "invalid", Path: []string{"handle"}},
		`{"timezone":""}`:                          {Code: "invalid", Path: []string{"timezone"}},
		`{"Privacy":"off"}`:                        {Code: "unknown_field", Path: []string{}},
		`{"` + strings.Repeat("ü", 40) + `":1}`:    {Code: "unknown_field", Path: []string{}},
	} {
		b := setup(t, &fake{
			change: func(account.Change) error { t.Error("something was changed"); return nil },
		})
		got := b.call(t, http.MethodPatch, "/v1/me", body, signedIn())
		if want.Code == "" {
			got.requireError(t, http.StatusRequestEntityTooLarge, api.ErrorCodePayloadTooLarge)
			continue
		}
		e := got.requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
		require.Len(t, e.Details, 1)
		require.Equal(t, want.Code, e.Details[0].Code, body)
		require.Equal(t, want.Path, e.Details[0].Path, body)
	}
}

func TestPatchMeBusy(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{change: func(account.Change) error { return account.ErrBusy }})
	got := b.call(t, http.MethodPatch, "/v1/me", `{"privacy":"off"}`, signedIn())
	got.requireError(t, http.StatusServiceUnavailable, api.ErrorCodeServiceUnavailable)
	require.Equal(t, "5", got.header.Get("Retry-After"))
}
