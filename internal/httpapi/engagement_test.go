package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/httpapi/api"
)

func TestEngagementAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	path := "/v1/sessions/" + testUser.String()
	got := b.call(t, http.MethodPut, path+"/kudos", "", signedIn())
	require.JSONEq(t, `{"session_id":"`+testUser.String()+`","given":true,"kudos":1}`, got.body)
	got = b.call(t, http.MethodDelete, path+"/kudos", "", signedIn())
	require.JSONEq(t, `{"session_id":"`+testUser.String()+`","given":false,"kudos":1}`, got.body)
	got = b.call(t, http.MethodPost, path+"/shares", "", signedIn())
	require.JSONEq(t, `{"recorded":true}`, got.body)

	got = b.call(t, http.MethodPost, path+"/comments", `{"body":"<i>","session":1}`, signedIn())
	require.Equal(t, http.StatusCreated, got.status)
	require.Contains(t, got.body, `"body":"<i>","created_at":"2026-06-17T09:30:00.123Z"`)
	require.Equal(t, "private, no-cache", got.header.Get("Cache-Control"))
	got = b.call(t, http.MethodDelete, "/v1/comments/"+testUser.String(), "", signedIn())
	require.Equal(t, http.StatusNoContent, got.status)
}

func TestCommentPages(t *testing.T) {
	t.Parallel()
	f := &fake{}
	b := setup(t, f)
	path := "/v1/sessions/" + testUser.String() + "/comments"
	got := b.call(t, http.MethodGet, path, "")
	require.Equal(t, uuid.Nil, f.viewer, "nobody has to be signed in")
	next, ok := got.json(t)["next_cursor"].(string)
	require.True(t, ok)
	got = b.call(t, http.MethodGet, path+"?cursor="+next, "", signedIn())
	require.Equal(t, testUser, f.viewer)
	require.JSONEq(t, `{"session_id":"`+testUser.String()+`","comments":[],"total":1,"next_cursor":null}`, got.body)
	for _, bad := range []string{"x", "!", "MXx4", sessionsCursor(t)} {
		b.call(t, http.MethodGet, path+"?cursor="+bad, "").requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
	}
}

// sessionsCursor is a cursor of another list.
func sessionsCursor(t *testing.T) string {
	t.Helper()
	return "MjAyNi0wNi0xNVQwODo0MjowMC4wMDBafDNmMGU2YTNkLTdiMGItNGI3ZC04ZDQzLTVlNWY2NGIxYjNhMg"
}

func TestCommentBodies(t *testing.T) {
	t.Parallel()
	f := &fake{}
	b := setup(t, f)
	path := "/v1/sessions/" + testUser.String() + "/comments"
	for body, status := range map[string]int{
		``: 400, `[]`: 400, `{}`: 400, `{"body":null}`: 400, `{"body":7}`: 400, `{"Body":"x"}`: 400, `{"body":"x"`: 400,
		`{"body":"` + strings.Repeat("x", maxCommentBytes) + `"}`: 413,
	} {
		require.Equal(t, status, b.call(t, http.MethodPost, path, body, signedIn()).status, "%.40s", body)
	}
	f.engaged = engagement.ErrBadBody
	e := b.call(t, http.MethodPost, path, `{"body":" "}`, signedIn()).requireError(t, 400, api.ErrorCodeValidationError)
	require.Equal(t, []string{"body"}, e.Details[0].Path)
}

func TestEngagementRefuses(t *testing.T) {
	t.Parallel()
	path := "/v1/sessions/" + testUser.String()
	for err, status := range map[error]int{
		engagement.ErrNotFound: 404, engagement.ErrOwnSession: 403, engagement.ErrOff: 403, engagement.ErrBusy: 503,
	} {
		b := setup(t, &fake{engaged: err})
		require.Equal(t, status, b.call(t, http.MethodPut, path+"/kudos", "", signedIn()).status)
		require.Equal(t, status, b.call(t, http.MethodPost, path+"/comments", `{"body":"x"}`, signedIn()).status)
	}
	b := setup(t, &fake{engaged: engagement.ErrNotYours})
	require.Equal(t, 403, b.call(t, http.MethodDelete, "/v1/comments/"+testUser.String(), "", signedIn()).status)
	for _, r := range [][2]string{
		{"PUT", "/v1/sessions/x/kudos"}, {"POST", "/v1/sessions/x/shares"}, {"GET", "/v1/sessions/x/comments"}, {"DELETE", "/v1/comments/x"},
	} {
		require.Equal(t, 404, b.call(t, r[0], r[1], "", signedIn()).status, r)
	}
}

// Who writes uses up what may be written in an hour; who reads does not.
func TestEngagementIsLimitedAsWrites(t *testing.T) {
	t.Parallel()
	var scopes []admission.Scope
	b := setup(t, &fake{admit: func(r admission.Request) (admission.Grant, error) {
		scopes = append(scopes, r.Scope)
		return admission.Grant{UserID: testUser, Limit: testLimit}, nil
	}})
	path := "/v1/sessions/" + testUser.String()
	b.call(t, "PUT", path+"/kudos", "", signedIn())
	b.call(t, "DELETE", path+"/kudos", "", signedIn())
	b.call(t, "POST", path+"/comments", `{"body":"x"}`, signedIn())
	b.call(t, "POST", path+"/shares", "", signedIn())
	b.call(t, "DELETE", "/v1/comments/"+testUser.String(), "", signedIn())
	b.call(t, "GET", path+"/comments", "", signedIn())
	w, r := admission.ScopeWrite, admission.ScopeRead
	require.Equal(t, []admission.Scope{w, w, w, w, w, r}, scopes)
}
