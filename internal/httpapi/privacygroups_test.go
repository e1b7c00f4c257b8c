package httpapi

import (
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
	"github.com/commma/commma/internal/testenv"
)

// ownerGroups are the groups that an owner has to do with: one of the owner's, with a member and somebody invited, and those
// of somebody else that the owner can accept, decline and leave.
type ownerGroups struct{ own, member, invited, toAccept, toDecline, toLeave string }

func (r real) ownerGroups(t *testing.T, o owner) ownerGroups {
	t.Helper()
	suffix := "-" + string(o.mode)
	host, member, invited := r.mustUser(t, "host"+suffix), r.mustUser(t, "member"+suffix), r.mustUser(t, "invited"+suffix)
	own := r.mustGroup(t, o.Created, member)
	require.NoError(t, r.Groups.Invite(t.Context(), o.ID, own, invited.Handle))
	toAccept, toDecline := r.mustGroup(t, host), r.mustGroup(t, host)
	require.NoError(t, r.Groups.Invite(t.Context(), host.ID, toAccept, o.Handle))
	require.NoError(t, r.Groups.Invite(t.Context(), host.ID, toDecline, o.Handle))
	return ownerGroups{
		own: own.String(), member: member.Handle, invited: invited.Handle,
		toAccept: toAccept.String(), toDecline: toDecline.String(), toLeave: r.mustGroup(t, host, o.Created).String(),
	}
}

// mustGroup makes a group with members.
func (r real) mustGroup(t *testing.T, by account.Created, members ...account.Created) uuid.UUID {
	t.Helper()
	id, err := r.Groups.Create(t.Context(), by.ID, "friends")
	require.NoError(t, err)
	for _, m := range members {
		require.NoError(t, r.Groups.Invite(t.Context(), by.ID, id, m.Handle))
		require.NoError(t, r.Groups.Accept(t.Context(), m.ID, id))
	}
	return id
}

func groupRoute(below string) func(owner) string {
	return func(o owner) string { return "/v1/groups/" + o.groups.own + below }
}

func followPath(o owner) string { return "/v1/users/" + o.Handle + "/follow" }

// byOwner is what comes of something that is done with one's own: by the owner, by the owner on off, and by others.
func byOwner(own, ownOff, other int) func(privacy.Viewer, activity.Mode) int {
	return func(v privacy.Viewer, m activity.Mode) int {
		switch {
		case v == privacy.Owner && m == activity.ModeOff:
			return ownOff
		case v == privacy.Owner:
			return own
		}
		return other
	}
}

// byMember is byOwner where others find nothing.
func byMember(own, ownOff int) func(privacy.Viewer, activity.Mode) int {
	return byOwner(own, ownOff, http.StatusNotFound)
}

var allModes = []activity.Mode{activity.ModeFull, activity.ModeSummary, activity.ModeOff}

// What members see of each other is what the permission says, and follows a change of mode at once.
func TestWhoSeesWhomInAGroup(t *testing.T) {
	t.Parallel()
	r := setupReal(t, testenv.Postgres(t), testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	watcher, shown := r.mustUser(t, "watcher"), r.mustUser(t, "shown")
	r.work(t, watcher, time.Hour)
	r.work(t, shown, 2*time.Hour, 110*time.Minute, lastWeek, threeWeeksAgo)
	byWatcher, byShown := r.mustGroup(t, watcher, shown), r.mustGroup(t, shown, watcher)
	for _, mode := range append(allModes, activity.ModeFull) {
		require.NoError(t, r.Accounts.Change(t.Context(), shown.ID, account.Change{Mode: &mode}))
		for _, id := range []uuid.UUID{byWatcher, byShown} {
			path := "/v1/groups/" + id.String()
			for _, viewer := range []account.Created{watcher, shown} {
				who := privacy.ViewerOf(viewer.ID, shown.ID)
				got := r.call(t, http.MethodGet, path, "", bearer(viewer))
				require.Equal(t, http.StatusOK, got.status, got.body)
				sees := privacy.See(who, mode, privacy.Profile) != privacy.Hidden
				require.Equal(t, sees, containsHandle(got.body, shown.Handle), "%s to %d: %s", mode, who, got.body)
				require.True(t, containsHandle(got.body, watcher.Handle))
				r.checkCircle(t, path+"/leaderboard?", viewer, watcher, shown, mode)
			}
		}
		list := r.call(t, http.MethodGet, "/v1/groups", "", bearer(watcher))
		require.Equal(t, mode != activity.ModeOff, containsHandle(list.body, shown.Handle), "%s: %s", mode, list.body)
	}
}

// What an owner is answered about somebody on off is, to the byte, what is answered about nobody, in the group or not.
func TestAnOwnerIsToldNothingOfWhoIsHidden(t *testing.T) {
	t.Parallel()
	r := setupReal(t, testenv.Postgres(t), testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	owner, member, invited, stranger := r.mustUser(t, "owner"), r.mustUser(t, "member"), r.mustUser(t, "invited"), r.mustUser(t, "stranger")
	id := r.mustGroup(t, owner, member)
	require.NoError(t, r.Groups.Invite(t.Context(), owner.ID, id, invited.Handle))
	off := activity.ModeOff
	for _, u := range []account.Created{member, invited, stranger} {
		require.NoError(t, r.Accounts.Change(t.Context(), u.ID, account.Change{Mode: &off}))
	}
	for _, kind := range []string{"members", "invitations"} {
		path := "/v1/groups/" + id.String() + "/" + kind + "/"
		nobody := r.call(t, http.MethodDelete, path+"nobody", "", bearer(owner))
		require.Equal(t, http.StatusNoContent, nobody.status, nobody.body)
		for _, u := range []account.Created{member, invited, stranger} {
			got := r.call(t, http.MethodDelete, path+u.Handle, "", bearer(owner))
			require.Equal(t, nobody.status, got.status, "%s %s", kind, u.Handle)
			require.Equal(t, nobody.body, got.body)
			require.Equal(t, slices.Sorted(maps.Keys(nobody.header)), slices.Sorted(maps.Keys(got.header)))
		}
	}
	full := activity.ModeFull
	for _, u := range []account.Created{member, invited} {
		require.NoError(t, r.Accounts.Change(t.Context(), u.ID, account.Change{Mode: &full}))
	}
	got := r.call(t, http.MethodGet, "/v1/groups/"+id.String(), "", bearer(owner))
	require.False(t, containsHandle(got.body, "member") || containsHandle(got.body, "invited"), got.body)
}

// checkCircle reads the board of a group, or of whom somebody follows, in many ways: shown has the place that the permission
// says, or none, and the watcher's rank and delta tell nothing of it either.
func (r real) checkCircle(t *testing.T, path string, viewer, watcher, shown account.Created, mode activity.Mode) {
	t.Helper()
	sees := privacy.See(privacy.ViewerOf(viewer.ID, shown.ID), mode, privacy.Board) != privacy.Hidden
	for _, query := range []string{"", "&period=day", "&period=month", "&period=alltime&lang=go", "&around=me", "&limit=1"} {
		board := r.board(t, path+query, false, []option{bearer(viewer)})
		hasPlace := viewer.ID == watcher.ID || sees
		require.Equal(t, hasPlace, board.Me != nil, "%s %s", query, mode)
		if query == "&around=me" && !hasPlace {
			require.Empty(t, board.Entries)
			continue
		}
		require.Equal(t, sees, slices.Contains(board.handles(), shown.Handle), "%s %s: %v", query, mode, board)
		if viewer.ID == watcher.ID {
			want := int64(1)
			if sees {
				want = 2
			}
			require.Equal(t, want, board.Me.Rank, "%s %s", query, mode)
		}
	}
	for _, ago := range []time.Duration{lastWeek, threeWeeksAgo} {
		board := r.board(t, path+"&starts_on="+weekOf(ago), false, []option{bearer(viewer)})
		require.Equal(t, sees, slices.Contains(board.handles(), shown.Handle), "%s: %v", mode, board)
	}
}

// containsHandle says whether an answer names a user, whoever else's handle holds theirs.
func containsHandle(body, handle string) bool { return strings.Contains(body, `"handle":"`+handle+`"`) }

// A feed, the board and the list of whom one follows show what the permission says, and follow a change of mode at once.
func TestFollowingByMode(t *testing.T) {
	t.Parallel()
	r := setupReal(t, testenv.Postgres(t), testenv.RedisURL(t), admission.DefaultConfig(), Config{})
	watcher, shown, stranger := r.mustUser(t, "watcher"), r.mustUser(t, "shown"), r.mustUser(t, "stranger")
	for _, u := range []account.Created{watcher, stranger} {
		r.work(t, u, time.Hour)
	}
	r.work(t, shown, 2*time.Hour, 110*time.Minute, lastWeek, threeWeeksAgo)
	got := r.call(t, http.MethodPut, "/v1/users/shown/follow", "", bearer(watcher))
	require.Equal(t, http.StatusNoContent, got.status, got.body)
	for _, mode := range append(allModes, activity.ModeFull) {
		require.NoError(t, r.Accounts.Change(t.Context(), shown.ID, account.Change{Mode: &mode}))
		r.checkCircle(t, "/v1/leaderboard?scope=following", watcher, watcher, shown, mode)
		for path, kind := range map[string]privacy.Kind{"/v1/feed": privacy.Feed, "/v1/me/following": privacy.Profile} {
			got := r.call(t, http.MethodGet, path, "", bearer(watcher))
			require.Equal(t, privacy.See(privacy.Other, mode, kind) != privacy.Hidden, containsHandle(got.body, "shown"), "%s %s", mode, got.body)
			require.NotContains(t, got.body, secretPath)
			require.False(t, containsHandle(got.body, "stranger") || containsHandle(got.body, "watcher"))
		}
	}
	require.Equal(t, http.StatusNoContent, r.call(t, http.MethodDelete, "/v1/users/shown/follow", "", bearer(watcher)).status)
	require.False(t, containsHandle(r.call(t, http.MethodGet, "/v1/feed", "", bearer(watcher)).body, "shown"))
}
