package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/following"
	"github.com/commma/commma/internal/groups"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/sessions"
)

// fakeCircles stands for groups, following and the boards of both: everything fails with err, or answers something harmless.
type fakeCircles struct {
	fakeFollowing
	err   error
	named string
	other string
	users []uuid.UUID
	query leaderboard.Query
}

func (f *fakeCircles) Create(_ context.Context, _ uuid.UUID, name string) (uuid.UUID, error) {
	f.named = name
	return testUser, f.err
}

func (f *fakeCircles) List(context.Context, uuid.UUID) ([]groups.Summary, []groups.Invitation, error) {
	return []groups.Summary{{ID: testUser, Name: "<b>", CreatedAt: testNow, Members: 1}},
		[]groups.Invitation{{Group: testUser, Name: "x", Owner: groups.Person{Handle: "ada"}, At: testNow}}, f.err
}

func (f *fakeCircles) Get(_ context.Context, _, id uuid.UUID) (groups.Group, error) {
	me := groups.Person{Handle: "demo"}
	return groups.Group{
		Summary: groups.Summary{ID: id, Name: "x", CreatedAt: testNow, Owned: true, Owner: &me, Members: 1},
		People:  []groups.Member{{Person: me, Owner: true, JoinedAt: testNow}},
	}, f.err
}

func (f *fakeCircles) Rename(_ context.Context, _, _ uuid.UUID, name string) error {
	f.named = name
	return f.err
}

func (f *fakeCircles) Delete(context.Context, uuid.UUID, uuid.UUID) error  { return f.err }
func (f *fakeCircles) Accept(context.Context, uuid.UUID, uuid.UUID) error  { return f.err }
func (f *fakeCircles) Decline(context.Context, uuid.UUID, uuid.UUID) error { return f.err }
func (f *fakeCircles) Leave(context.Context, uuid.UUID, uuid.UUID) error   { return f.err }

func (f *fakeCircles) MemberIDs(context.Context, uuid.UUID, uuid.UUID) ([]uuid.UUID, error) {
	return []uuid.UUID{testUser, uuid.Max}, f.err
}

func (f *fakeCircles) toOther(handle string) error {
	f.other = handle
	return f.err
}

func (f *fakeCircles) Invite(_ context.Context, _, _ uuid.UUID, handle string) error {
	return f.toOther(handle)
}

func (f *fakeCircles) Withdraw(_ context.Context, _, _ uuid.UUID, handle string) error {
	return f.toOther(handle)
}

func (f *fakeCircles) Remove(_ context.Context, _, _ uuid.UUID, handle string) error {
	return f.toOther(handle)
}

func (f *fakeCircles) Page(_ context.Context, _ time.Time, b leaderboard.Board, users []uuid.UUID, q leaderboard.Query) (leaderboard.Page, error) {
	f.users, f.query = users, q
	return leaderboard.Page{Board: b, UpdatedAt: testNow}, f.err
}

// fakeFollowing stands for who follows whom.
type fakeFollowing struct {
	failure  error
	followed []string
	limit    int
}

func (f *fakeFollowing) Follow(_ context.Context, _ uuid.UUID, handle string) error {
	f.followed = append(f.followed, "+"+handle)
	return f.failure
}

func (f *fakeFollowing) Unfollow(_ context.Context, _ uuid.UUID, handle string) error {
	f.followed = append(f.followed, "-"+handle)
	return f.failure
}

func (f *fakeFollowing) Circle(_ context.Context, userID uuid.UUID) ([]uuid.UUID, error) {
	return []uuid.UUID{uuid.Max, userID}, f.failure
}

// listed is fakeFollowing as far as it lists whom somebody follows, which fakeCircles cannot do beside listing groups.
type listed struct{ *fakeFollowing }

func (f listed) List(context.Context, uuid.UUID) ([]following.Followed, error) {
	return []following.Followed{{Person: following.Person{Handle: "ada"}, At: testNow}}, f.failure
}

func (f *fakeFollowing) Feed(_ context.Context, _ uuid.UUID, after *sessions.Cursor, limit int) (following.Page, error) {
	f.limit = limit
	if after != nil {
		return following.Page{}, f.failure
	}
	s := sessions.Session{ID: testUser, StartedAt: testNow, EndedAt: testNow.Add(time.Minute), TopLang: "go"}
	return following.Page{
		Entries: []following.Entry{{Session: s, By: following.Person{Handle: "ada"}}},
		Next:    &sessions.Cursor{StartedAt: testNow, ID: testUser},
	}, f.failure
}

// with has a server's groups and following be f.
func (f *fakeCircles) with(d *Deps) {
	d.Groups, d.Memberships, d.Circles, d.Following = f, f, f, listed{&f.fakeFollowing}
}

func setupCircles(t *testing.T, f *fakeCircles) bundle {
	t.Helper()
	return setupDeps(t, Config{}, f.with)
}

const groupPath = "/v1/groups/5b1d2c9e-0f5a-4c9e-8f43-5e5f64b1b3a2"

// groupChanges are all requests that change a group, with a body where one is needed.
var groupChanges = [][2]string{
	{"POST /v1/groups", `{"name":"x"}`}, {"PATCH " + groupPath, `{"name":"x"}`}, {"DELETE " + groupPath, ""},
	{"PUT " + groupPath + "/invitations/ada", ""}, {"DELETE " + groupPath + "/invitations/ada", ""}, {"POST " + groupPath + "/accept", ""},
	{"POST " + groupPath + "/decline", ""}, {"POST " + groupPath + "/leave", ""}, {"DELETE " + groupPath + "/members/ada", ""},
}

func TestGroupAnswers(t *testing.T) {
	t.Parallel()
	f := &fakeCircles{}
	b := setupCircles(t, f)
	got := b.call(t, http.MethodGet, "/v1/groups", "", signedIn())
	require.JSONEq(t, `{
		"groups":[{"id":"`+testUser.String()+`","name":"<b>","owner":null,"owned":false,"member_count":1,"created_at":"2026-06-17T09:30:00.123Z"}],
		"invitations":[{"group_id":"`+testUser.String()+`","name":"x","owner":{"handle":"ada","avatar_url":null},"invited_at":"2026-06-17T09:30:00.123Z"}]
	}`, got.body)
	require.Equal(t, cachePrivate, got.header.Get("Cache-Control"))
	got = b.call(t, http.MethodPost, "/v1/groups", `{"name":"new"}`, signedIn())
	require.Equal(t, http.StatusCreated, got.status)
	require.Equal(t, "new", f.named)
	require.Contains(t, got.body, `"invited":[]`)
	b.call(t, http.MethodPut, groupPath+"/invitations/grace", "", signedIn())
	require.Equal(t, "grace", f.other)

	got = b.call(t, http.MethodGet, groupPath+"/leaderboard?around=me&lang=golang&period=day&limit=7", "", signedIn())
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, []uuid.UUID{testUser, uuid.Max}, f.users)
	require.Equal(t, leaderboard.Query{Limit: 7, Around: testUser, Me: testUser}, f.query)
	require.Equal(t, "day", got.json(t)["period"])
}

func TestGroupBodies(t *testing.T) {
	t.Parallel()
	b := setupCircles(t, &fakeCircles{})
	for body, status := range map[string]int{
		``: 400, `[]`: 400, `{}`: 400, `{"name":null}`: 400, `{"name":7}`: 400, `{"Name":"x"}`: 400, `{"name":"x"`: 400,
		`{"name":"` + strings.Repeat("x", maxGroupBytes) + `"}`: 413,
	} {
		require.Equal(t, status, b.call(t, http.MethodPost, "/v1/groups", body, signedIn()).status, "%.40s", body)
		require.Equal(t, status, b.call(t, http.MethodPatch, groupPath, body, signedIn()).status, "%.40s", body)
	}
	b = setupCircles(t, &fakeCircles{err: groups.ErrBadName})
	e := b.call(t, http.MethodPost, "/v1/groups", `{"name":" "}`, signedIn()).requireError(t, 400, api.ErrorCodeValidationError)
	require.Equal(t, []string{"name"}, e.Details[0].Path)
}

func TestGroupsRefuse(t *testing.T) {
	t.Parallel()
	for err, status := range map[error]int{
		groups.ErrNotFound: 404, groups.ErrNotOwner: 403, groups.ErrOff: 403, groups.ErrTooMany: 409, groups.ErrMember: 409,
	} {
		b := setupCircles(t, &fakeCircles{err: err})
		got := b.call(t, http.MethodPut, groupPath+"/invitations/ada", "", signedIn())
		require.Equal(t, status, got.status, got.body)
	}
	b := setupCircles(t, &fakeCircles{err: groups.ErrNotFound})
	for _, r := range groupChanges[1:] {
		method, path, _ := strings.Cut(r[0], " ")
		require.Equal(t, 404, b.call(t, method, path, r[1], signedIn()).status, r)
	}
	b = setupCircles(t, &fakeCircles{})
	for _, r := range groupChanges[1:] { // what is not an id names no group
		method, path, _ := strings.Cut(r[0], " ")
		for _, id := range []string{"x", "{5b1d2c9e-0f5a-4c9e-8f43-5e5f64b1b3a2}", "5b1d2c9e0f5a4c9e8f435e5f64b1b3a2"} {
			other := strings.Replace(path, groupPath, "/v1/groups/"+id, 1)
			require.Equal(t, 404, b.call(t, method, other, r[1], signedIn()).status, other)
		}
	}
}

// Who writes uses up what may be written in an hour; who reads does not.
func TestGroupsAreLimitedAsWrites(t *testing.T) {
	t.Parallel()
	var scopes []admission.Scope
	admit := &fake{admit: func(r admission.Request) (admission.Grant, error) {
		scopes = append(scopes, r.Scope)
		return admission.Grant{UserID: testUser, Limit: testLimit}, nil
	}}
	b := setupDeps(t, Config{}, func(d *Deps) { d.Admission = admit })
	writes := append([][2]string{
		{"PUT /v1/users/ada/follow", ""}, {"POST /v1/users/ada/follow", ""}, {"DELETE /v1/users/ada/follow", ""},
	}, groupChanges...)
	for _, r := range writes {
		method, path, _ := strings.Cut(r[0], " ")
		require.Less(t, b.call(t, method, path, r[1], signedIn()).status, 300, r)
	}
	for i, s := range scopes {
		require.Equal(t, admission.ScopeWrite, s, writes[i])
	}
	scopes = nil
	for _, path := range []string{"/v1/groups", groupPath, groupPath + "/leaderboard", "/v1/feed", "/v1/me/following"} {
		require.Equal(t, http.StatusOK, b.call(t, http.MethodGet, path, "", signedIn()).status, path)
	}
	for _, s := range scopes {
		require.Equal(t, admission.ScopeRead, s)
	}
}

func TestFollowingAnswers(t *testing.T) {
	t.Parallel()
	f := &fakeCircles{}
	b := setupCircles(t, f)
	for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodDelete} {
		require.Equal(t, http.StatusNoContent, b.call(t, method, "/v1/users/ada/follow", "", signedIn()).status)
	}
	require.Equal(t, []string{"+ada", "+ada", "-ada"}, f.followed)
	got := b.call(t, http.MethodGet, "/v1/me/following", "", signedIn())
	require.JSONEq(t, `{"users":[{"handle":"ada","avatar_url":null,"followed_at":"2026-06-17T09:30:00.123Z"}]}`, got.body)

	got = b.call(t, http.MethodGet, "/v1/feed", "", signedIn())
	require.Contains(t, got.body, `"top_lang":"Go"`)
	require.Equal(t, defaultFeed, f.limit)
	next, ok := got.json(t)["next_cursor"].(string)
	require.True(t, ok)
	got = b.call(t, http.MethodGet, "/v1/feed?limit=99&cursor="+next, "", signedIn())
	require.JSONEq(t, `{"entries":[],"next_cursor":null}`, got.body)
	require.Equal(t, maxFeed, f.limit)
	b.call(t, http.MethodGet, "/v1/feed?cursor=x", "", signedIn()).requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)

	for err, status := range map[error]int{
		following.ErrNotFound: 404, following.ErrSelf: 403, following.ErrOff: 403, following.ErrTooMany: 409,
	} {
		f.failure = err
		require.Equal(t, status, b.call(t, http.MethodPut, "/v1/users/ada/follow", "", signedIn()).status)
	}
}

func TestBoardOfWhomOneFollows(t *testing.T) {
	t.Parallel()
	f := &fakeCircles{}
	b := setupCircles(t, f)
	got := b.call(t, http.MethodGet, "/v1/leaderboard?scope=following&limit=3", "", signedIn())
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, []uuid.UUID{uuid.Max, testUser}, f.users)
	require.Equal(t, leaderboard.Query{Limit: 3, Me: testUser}, f.query)
	require.Equal(t, cachePrivate, got.header.Get("Cache-Control"))
	b.call(t, http.MethodGet, "/v1/leaderboard?scope=following", "").requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
	b.call(t, http.MethodGet, "/v1/leaderboard?scope=all", "").requireError(t, http.StatusBadRequest, api.ErrorCodeValidationError)
}
