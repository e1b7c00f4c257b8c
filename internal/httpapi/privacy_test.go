package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
)

// secretPath is in a file, a project and nowhere else.
const secretPath = "s3cr3t-path"

// owner is the user whose data is read: a session with paths, which somebody else has commented, and places on boards.
type owner struct {
	account.Created
	mode     activity.Mode
	session  string
	absorbed string // the id of another session, which session absorbed
	comment  string
	groups   ownerGroups
}

// rule says what a route shows of a user, to whom. What it says is checked for every mode and viewer.
type rule struct {
	// shows is what the route shows of the user that target names. 0: it shows, and changes, what is the caller's own,
	// and needs a token.
	shows  privacy.Kind
	target func(o owner) string
	alias  func(o owner) string // another path to the same; optional
	body   func(o owner) string
	status int // of success; default 200
	// private: the answer is for the caller alone, whoever that is.
	private bool
	// does says that the route does something to what target names of the owner's, and what comes of it.
	does func(v privacy.Viewer, m activity.Mode) int
	open bool // it is the same for everybody, and about no user
	// holdsPaths: it shows its caller all that is stored, paths and what was planted included.
	holdsPaths bool
	// foreign is what another user gets where target names what is the owner's. Default: status, about himself.
	foreign int
	// byLink: nobody's token matters, only that of the link, which here is a wrong one.
	byLink bool
	// jobs: no user may, whoever that is; a service token may.
	jobs bool
}

func sessionPath(o owner) string { return "/v1/sessions/" + o.session }

func absorbedPath(o owner) string { return "/v1/sessions/" + o.absorbed }

func unsubscribePath(owner) string { return "/v1/recap/unsubscribe?token=wrong" }

func kudosPath(o owner) string { return sessionPath(o) + "/kudos" }

func commentsPath(o owner) string { return sessionPath(o) + "/comments" }

func constant(body string) func(owner) string { return func(owner) string { return body } }

// toOthers is what comes of something that is done to a session: others may while they see it, the owner gets own.
func toOthers(status, own, ownOff int) func(privacy.Viewer, activity.Mode) int {
	return func(v privacy.Viewer, m activity.Mode) int {
		switch {
		case v == privacy.Owner && m == activity.ModeOff:
			return ownOff
		case v == privacy.Owner:
			return own
		case privacy.See(v, m, privacy.List) == privacy.Hidden:
			return http.StatusNotFound
		}
		return status
	}
}

// rules has every route of the contract. A new one has to be decided on here: what does it show of another user? The ones
// that delete come last, and in this order.
var rules = map[string]rule{
	"GET /health":       {open: true},
	"GET /readyz":       {open: true},
	"GET /metrics":      {open: true},
	"GET /openapi.yaml": {open: true},
	"GET /docs":         {open: true},
	"GET /docs/{asset}": {open: true, target: constant("/docs/docs.js")},

	// What the link of a mail says is decided by the link.
	"GET /v1/recap/unsubscribe":  {target: unsubscribePath, byLink: true},
	"POST /v1/recap/unsubscribe": {target: unsubscribePath, byLink: true},

	"POST /v1/ingest":       {status: http.StatusAccepted, body: constant(`{"events":[{}]}`)},
	"GET /v1/me":            {},
	"PATCH /v1/me":          {body: constant(`{}`)},
	"GET /v1/me/views":      {},
	"GET /v1/me/today":      {},
	"GET /v1/me/export":     {holdsPaths: true},
	"GET /v1/sessions":      {},
	"GET /v1/recap":         {},
	"GET /v1/recaps":        {jobs: true},
	"GET /v1/leaderboard":   {shows: privacy.Board},
	"GET /v1/sessions/{id}": {shows: privacy.Detail, target: sessionPath, alias: absorbedPath},
	"GET /v1/users/{handle}/sessions": {
		shows: privacy.List, target: func(o owner) string { return "/v1/users/" + o.Handle + "/sessions" },
	},
	"GET /v1/heatmap": {
		shows: privacy.Heatmap, target: func(o owner) string { return "/v1/heatmap?handle=" + o.Handle },
	},
	"GET /v1/users/{handle}": {
		shows: privacy.Profile, target: func(o owner) string { return "/v1/users/" + o.Handle },
	},
	// To be told whether a look counted is to be told that there is a page.
	"POST /v1/views": {
		shows: privacy.Profile, private: true, body: func(o owner) string { return `{"target":"profile:` + o.Handle + `"}` },
	},
	"GET /v1/sessions/{id}/comments": {shows: privacy.List, target: commentsPath},
	"POST /v1/sessions/{id}/comments": {
		target: commentsPath, body: constant(`{"body":"hello"}`),
		does: toOthers(http.StatusCreated, http.StatusCreated, http.StatusForbidden),
	},
	"PUT /v1/sessions/{id}/kudos":    {target: kudosPath, does: toOthers(http.StatusOK, http.StatusForbidden, http.StatusForbidden)},
	"DELETE /v1/sessions/{id}/kudos": {target: kudosPath, does: toOthers(http.StatusOK, http.StatusForbidden, http.StatusForbidden)},
	"POST /v1/sessions/{id}/shares": {
		target: func(o owner) string { return sessionPath(o) + "/shares" },
		does:   toOthers(http.StatusOK, http.StatusOK, http.StatusNotFound),
	},
	"DELETE /v1/comments/{id}": {
		target: func(o owner) string { return "/v1/comments/" + o.comment },
		does:   toOthers(http.StatusForbidden, http.StatusNoContent, http.StatusNoContent),
	},
	// A group is there for its members alone; TestWhoSeesWhomInAGroup has what these see of each other.
	"GET /v1/groups":                  {},
	"POST /v1/groups":                 {body: constant(`{"name":"x"}`), does: byOwner(http.StatusCreated, http.StatusForbidden, http.StatusCreated)},
	"GET /v1/groups/{id}":             {target: groupRoute(""), does: byMember(http.StatusOK, http.StatusOK)},
	"GET /v1/groups/{id}/leaderboard": {target: groupRoute("/leaderboard"), does: byMember(http.StatusOK, http.StatusOK)},
	"PATCH /v1/groups/{id}": {
		target: groupRoute(""), body: constant(`{"name":"y"}`), does: byMember(http.StatusOK, http.StatusForbidden),
	},
	"PUT /v1/groups/{id}/invitations/{handle}": {
		target: groupRoute("/invitations/neighbour"), does: byMember(http.StatusNoContent, http.StatusForbidden),
	},
	"DELETE /v1/groups/{id}/invitations/{handle}": {
		target: func(o owner) string { return groupRoute("/invitations/" + o.groups.invited)(o) },
		does:   byMember(http.StatusNoContent, http.StatusNoContent),
	},
	"DELETE /v1/groups/{id}/members/{handle}": {
		target: func(o owner) string { return groupRoute("/members/" + o.groups.member)(o) },
		does:   byMember(http.StatusNoContent, http.StatusNoContent),
	},
	"POST /v1/groups/{id}/accept": {
		target: func(o owner) string { return "/v1/groups/" + o.groups.toAccept + "/accept" },
		does:   byMember(http.StatusOK, http.StatusForbidden),
	},
	"POST /v1/groups/{id}/decline": {
		target: func(o owner) string { return "/v1/groups/" + o.groups.toDecline + "/decline" },
		does:   byMember(http.StatusNoContent, http.StatusNoContent),
	},
	"POST /v1/groups/{id}/leave": {
		target: func(o owner) string { return "/v1/groups/" + o.groups.toLeave + "/leave" },
		does:   byMember(http.StatusNoContent, http.StatusNoContent),
	},
	// To follow shows that there is somebody of this handle, as a profile does. To unfollow shows nothing.
	"PUT /v1/users/{handle}/follow":  {target: followPath, does: toOthers(http.StatusNoContent, http.StatusForbidden, http.StatusForbidden)},
	"POST /v1/users/{handle}/follow": {target: followPath, does: toOthers(http.StatusNoContent, http.StatusForbidden, http.StatusForbidden)},
	"DELETE /v1/users/{handle}/follow": {
		target: followPath, does: byOwner(http.StatusNoContent, http.StatusNoContent, http.StatusNoContent),
	},
	"GET /v1/me/following": {},
	"GET /v1/feed":         {}, // TestFollowingByMode has what is in it

	"DELETE /v1/groups/{id}":   {target: groupRoute(""), does: byMember(http.StatusNoContent, http.StatusNoContent)},
	"DELETE /v1/sessions/{id}": {target: sessionPath, status: http.StatusNoContent, foreign: http.StatusNotFound},
	"DELETE /v1/me":            {status: http.StatusNoContent},
}

func TestEveryRouteHasARule(t *testing.T) {
	t.Parallel()
	var documented []string
	for path, item := range contract().Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	require.ElementsMatch(t, documented, slices.Collect(maps.Keys(rules)), "decide what the new route shows of another user")
	// And those that the server has, whoever registered them.
	var served []string
	for _, route := range setup(t, &fake{}).echo.Routes() {
		served = append(served, route.Method+" "+pathParameter.ReplaceAllString(route.Path, "{$1}"))
	}
	require.ElementsMatch(t, served, slices.Collect(maps.Keys(rules)), "decide what the new route shows of another user")
}

// newOwner makes a user with sessions that have paths, who then goes over to mode: one of this week, which has absorbed
// another, one of the week before, and one of two weeks before that. A leftover is planted after that: what the erasure
// removes must be hidden by the permission too.
func (r real) newOwner(t *testing.T, mode activity.Mode) owner {
	t.Helper()
	o := owner{Created: r.mustUser(t, "owner-"+string(mode)), mode: mode}
	r.work(t, o.Created, time.Hour, 30*time.Minute, lastWeek, lastWeek+10*time.Minute, threeWeeksAgo)
	r.work(t, o.Created, 45*time.Minute) // between the two
	require.NoError(t, r.DB.QueryRow(t.Context(), `SELECT heir::text, id::text FROM session_aliases WHERE user_id = $1`,
		o.ID).Scan(&o.session, &o.absorbed))
	for _, path := range []string{sessionPath(o), absorbedPath(o)} {
		require.Contains(t, r.call(t, http.MethodGet, path, "", bearer(o.Created)).body, secretPath, "the search must be known to find it")
	}

	o.groups = r.ownerGroups(t, o)
	got := r.call(t, http.MethodPost, commentsPath(o), `{"body":"hello"}`, bearer(r.mustUser(t, "author-"+string(mode))))
	require.Equal(t, http.StatusCreated, got.status, got.body)
	o.comment, _ = got.json(t)["comment"].(map[string]any)["id"].(string)

	require.NoError(t, r.Accounts.Change(t.Context(), o.ID, account.Change{Mode: &mode}))
	got = r.call(t, http.MethodGet, sessionPath(o), "", bearer(o.Created))
	require.Equal(t, mode == activity.ModeFull, strings.Contains(got.body, secretPath), "erased: %s", got.body)
	_, err := r.DB.Exec(t.Context(), `INSERT INTO session_details (user_id, session_id, files) VALUES ($1, $2, $3)
		ON CONFLICT DO NOTHING`, o.ID, o.session, `[{"path":"`+secretPath+`","changes":1}]`)
	require.NoError(t, err)
	return o
}

// work uploads an event with paths for each time ago, and finalizes them.
func (r real) work(t *testing.T, u account.Created, ago ...time.Duration) {
	t.Helper()
	for _, d := range ago {
		body := fmt.Sprintf(`{"events":[{"id":%q,"ts":%d,"lang":"go","file":"%[3]s/a.go","project":"%[3]s","keystrokes":7,"lines":1,
			"key_freq":{"a":7}}]}`, uuid.New(), testNow.Add(-d).UnixMilli(), secretPath)
		got := r.call(t, http.MethodPost, "/v1/ingest", body, bearer(u))
		require.Equal(t, http.StatusAccepted, got.status, "%s\n%s", got.body, r.logs)
	}
	_, err := r.Finalizer.Finalize(t.Context(), r.DB, u.ID, nil)
	require.NoError(t, err)
}

func TestWhoSeesWhat(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	limits := admission.DefaultConfig()
	limits.FailedAuthPerHour = 0 // a request without a token is one
	for scope := range limits.PerHour {
		limits.PerHour[scope] = 1_000_000
	}
	r := setupReal(t, pool, testenv.RedisURL(t), limits, Config{})
	neighbour := r.newNeighbour(t)
	routes := slices.SortedFunc(maps.Keys(rules), func(a, b string) int {
		deletes := func(route string) int {
			switch route {
			case "DELETE /v1/sessions/{id}", "DELETE /v1/groups/{id}":
				return 1
			case "DELETE /v1/me":
				return 2
			}
			return 0
		}
		return deletes(a) - deletes(b)
	})
	for _, mode := range []activity.Mode{activity.ModeFull, activity.ModeSummary, activity.ModeOff} {
		o := r.newOwner(t, mode)
		viewers := []privacy.Viewer{privacy.Anonymous, privacy.Other, privacy.Owner}
		for _, viewer := range viewers {
			r.checkBoards(t, viewer, o, neighbour)
		}
		for _, route := range routes {
			for _, viewer := range viewers {
				r.checkRule(t, route, viewer, o)
			}
		}
	}
}

// as is the header by which a viewer reads what is o's.
func (r real) as(t *testing.T, viewer privacy.Viewer, o owner) (options []option) {
	t.Helper()
	switch viewer {
	case privacy.Owner:
		options = append(options, bearer(o.Created))
	case privacy.Other:
		options = append(options, bearer(r.mustUser(t, "other-"+uuid.NewString()[:8])))
	}
	return options
}

// checkRule makes a request, by each path, and checks status, what it shows, and who may keep the answer.
func (r real) checkRule(t *testing.T, route string, viewer privacy.Viewer, o owner) {
	t.Helper()
	rule := rules[route]
	method, path, _ := strings.Cut(route, " ")
	if rule.target != nil {
		path = rule.target(o)
	}
	var body string
	if rule.body != nil {
		body = rule.body(o)
	}
	paths := []string{path}
	if rule.alias != nil {
		paths = append(paths, rule.alias(o))
	}
	for _, path := range paths {
		what := fmt.Sprintf("%s %s of a user on %s, seen by %d", method, path, o.mode, viewer)
		r.checkReply(t, rule, viewer, o, r.call(t, method, path, body, r.as(t, viewer, o)...), what)
	}
}

func (r real) checkReply(t *testing.T, rule rule, viewer privacy.Viewer, o owner, got reply, what string) {
	t.Helper()
	status, access := rule.expected(viewer, o.mode)
	require.Equal(t, status, got.status, "%s: %s", what, got.body)
	require.Equal(t, access == privacy.WithPaths, strings.Contains(got.body, secretPath), "%s: %s", what, got.body)
	if rule.shows == privacy.Board {
		require.Equal(t, access != privacy.Hidden, strings.Contains(got.body, o.Handle), "%s: %s", what, got.body)
	}
	if access == privacy.Hidden {
		require.NotContains(t, got.body, o.session, what)
		require.NotContains(t, got.body, o.absorbed, what)
		require.NotContains(t, got.body, o.ID.String(), what)
	}
	private := got.header.Get("Cache-Control") == "private, no-cache"
	kept := viewer == privacy.Anonymous && rule.shows != 0 && !rule.shows.HoldsPaths() && !rule.private
	require.Equal(t, !rule.open && !rule.byLink && !kept, private, what)
	if strings.Contains(got.body, secretPath) {
		require.True(t, private, "%s: holds paths", what)
	}
}

// expected is the status of the answer, and how much of the owner's it shows.
func (r rule) expected(v privacy.Viewer, m activity.Mode) (int, privacy.Access) {
	status := r.status
	if status == 0 {
		status = http.StatusOK
	}
	switch {
	case r.open:
		return status, privacy.Hidden
	case r.byLink:
		return http.StatusBadRequest, privacy.Hidden
	case r.jobs && v != privacy.Anonymous:
		return http.StatusForbidden, privacy.Hidden
	case r.shows == privacy.Board:
		return status, privacy.See(v, m, r.shows)
	case r.shows != 0:
		access := privacy.See(v, m, r.shows)
		if access == privacy.Hidden {
			status = http.StatusNotFound
		}
		return status, access
	case v == privacy.Anonymous:
		return http.StatusUnauthorized, privacy.Hidden
	case r.does != nil:
		if status = r.does(v, m); status >= http.StatusBadRequest {
			return status, privacy.Hidden
		}
		return status, privacy.WithoutPaths
	case v == privacy.Owner && r.holdsPaths:
		return status, privacy.WithPaths
	case v == privacy.Owner:
		return status, privacy.WithoutPaths
	case r.foreign != 0:
		return r.foreign, privacy.Hidden
	}
	return status, privacy.Hidden
}

// A change that was answered holds for every request that comes after it, also where the cached mode is another one.
func TestNoReadIsDecidedByTheCache(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t)
	url := testenv.RedisURL(t)
	r := setupReal(t, pool, url, admission.DefaultConfig(), Config{})
	rdb, err := redisconn.New(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	o := r.newOwner(t, activity.ModeOff)
	require.NoError(t, rdb.Set(context.WithoutCancel(t.Context()), privacy.Key(redisconn.ShardsOf(rdb), o.ID), "99:full", time.Hour).Err())
	require.Equal(t, http.StatusNotFound, r.call(t, http.MethodGet, sessionPath(o), "").status)
	require.NotContains(t, r.call(t, http.MethodGet, "/v1/leaderboard", "").body, o.Handle)
}
