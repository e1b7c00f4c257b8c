package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/commma/commma/internal/admission"
	"github.com/commma/commma/internal/groups"
	"github.com/commma/commma/internal/httpapi/api"
	"github.com/commma/commma/internal/leaderboard"
)

// Groups reads and changes groups. Whoever is no member of one gets groups.ErrNotFound.
type Groups interface {
	Create(ctx context.Context, userID uuid.UUID, name string) (uuid.UUID, error)
	List(ctx context.Context, userID uuid.UUID) ([]groups.Summary, []groups.Invitation, error)
	Get(ctx context.Context, viewer, id uuid.UUID) (groups.Group, error)
	Rename(ctx context.Context, userID, id uuid.UUID, name string) error
	Delete(ctx context.Context, userID, id uuid.UUID) error
	// MemberIDs are all members, in whatever mode: a board decides by the mode that it reads.
	MemberIDs(ctx context.Context, viewer, id uuid.UUID) ([]uuid.UUID, error)
}

// Memberships changes who is a member of groups.
type Memberships interface {
	Invite(ctx context.Context, userID, id uuid.UUID, handle string) error
	Withdraw(ctx context.Context, userID, id uuid.UUID, handle string) error
	Accept(ctx context.Context, userID, id uuid.UUID) error
	Decline(ctx context.Context, userID, id uuid.UUID) error
	Leave(ctx context.Context, userID, id uuid.UUID) error
	Remove(ctx context.Context, userID, id uuid.UUID, handle string) error
}

// Circles reads pages of the boards that some users make among themselves.
type Circles interface {
	Page(ctx context.Context, now time.Time, b leaderboard.Board, users []uuid.UUID, q leaderboard.Query) (leaderboard.Page, error)
}

// maxGroupBytes is far more than the longest name needs, however its characters are escaped.
const maxGroupBytes = 4 << 10

// ListGroups answers the user's groups and invitations.
func (h *handlers) ListGroups(c echo.Context) error {
	grant, err := h.admit(c, admission.ScopeRead)
	if err != nil {
		return err
	}
	list, invitations, err := h.Groups.List(c.Request().Context(), grant.UserID)
	if err != nil {
		return err
	}
	out := api.GroupList{Groups: make([]api.GroupSummary, len(list)), Invitations: make([]api.GroupInvitation, len(invitations))}
	for i := range list {
		g := &list[i]
		out.Groups[i] = api.GroupSummary{
			ID: g.ID, Name: g.Name, CreatedAt: api.Instant(g.CreatedAt), Owned: g.Owned, Owner: authorOf(g.Owner), MemberCount: g.Members,
		}
	}
	for i := range invitations {
		v := &invitations[i]
		out.Invitations[i] = api.GroupInvitation{
			GroupID: v.Group, Name: v.Name, Owner: *authorOf(&v.Owner), InvitedAt: api.Instant(v.At),
		}
	}
	return writeJSON(c, http.StatusOK, out)
}

// CreateGroup makes a group.
func (h *handlers) CreateGroup(c echo.Context) error {
	grant, err := h.admit(c, admission.ScopeWrite)
	if err != nil {
		return err
	}
	name, err := readGroupName(http.MaxBytesReader(c.Response(), c.Request().Body, maxGroupBytes))
	if err != nil {
		return err
	}
	id, err := h.Groups.Create(c.Request().Context(), grant.UserID, name)
	if err != nil {
		return badName(err)
	}
	return h.answerGroup(c, http.StatusCreated, grant.UserID, id)
}

// GetGroup answers a group to one of its members.
func (h *handlers) GetGroup(c echo.Context, rawID string) error {
	grant, id, err := h.admitGroup(c, admission.ScopeRead, rawID)
	if err != nil {
		return err
	}
	return h.answerGroup(c, http.StatusOK, grant.UserID, id)
}

// RenameGroup gives a group another name.
func (h *handlers) RenameGroup(c echo.Context, rawID string) error {
	grant, id, err := h.admitGroup(c, admission.ScopeWrite, rawID)
	if err != nil {
		return err
	}
	name, err := readGroupName(http.MaxBytesReader(c.Response(), c.Request().Body, maxGroupBytes))
	if err != nil {
		return err
	}
	if err := h.Groups.Rename(c.Request().Context(), grant.UserID, id, name); err != nil {
		return badName(err)
	}
	return h.answerGroup(c, http.StatusOK, grant.UserID, id)
}

// DeleteGroup deletes a group.
func (h *handlers) DeleteGroup(c echo.Context, rawID string) error {
	return h.changeGroup(c, rawID, h.Groups.Delete)
}

// GetGroupLeaderboard answers one page of the board of a group.
func (h *handlers) GetGroupLeaderboard(c echo.Context, rawID string, params api.GetGroupLeaderboardParams) error {
	grant, id, err := h.admitGroup(c, admission.ScopeRead, rawID)
	if err != nil {
		return err
	}
	members, err := h.Groups.MemberIDs(c.Request().Context(), grant.UserID, id)
	if err != nil {
		return err
	}
	return h.answerCircle(c, grant.UserID, members, boardParams{
		period: params.Period, startsOn: params.StartsOn, lang: params.Lang,
		limit: params.Limit, cursor: params.Cursor, around: params.Around,
	})
}

// answerCircle answers a page of the board of some users.
func (h *handlers) answerCircle(c echo.Context, viewer uuid.UUID, users []uuid.UUID, params boardParams) error {
	return h.answerBoard(c, viewer, params, func(ctx context.Context, now time.Time, b leaderboard.Board, q leaderboard.Query) (leaderboard.Page, error) {
		return h.Circles.Page(ctx, now, b, users, q)
	})
}

// InviteToGroup invites somebody.
func (h *handlers) InviteToGroup(c echo.Context, rawID string, handle string) error {
	return h.changeGroup(c, rawID, with(h.Memberships.Invite, handle))
}

// WithdrawInvitation takes an invitation back.
func (h *handlers) WithdrawInvitation(c echo.Context, rawID string, handle string) error {
	return h.changeGroup(c, rawID, with(h.Memberships.Withdraw, handle))
}

// AcceptInvitation makes the user a member.
func (h *handlers) AcceptInvitation(c echo.Context, rawID string) error {
	grant, id, err := h.admitGroup(c, admission.ScopeWrite, rawID)
	if err != nil {
		return err
	}
	if err := h.Memberships.Accept(c.Request().Context(), grant.UserID, id); err != nil {
		return err
	}
	return h.answerGroup(c, http.StatusOK, grant.UserID, id)
}

// DeclineInvitation answers an invitation with no.
func (h *handlers) DeclineInvitation(c echo.Context, rawID string) error {
	return h.changeGroup(c, rawID, h.Memberships.Decline)
}

// LeaveGroup takes the user out of a group.
func (h *handlers) LeaveGroup(c echo.Context, rawID string) error {
	return h.changeGroup(c, rawID, h.Memberships.Leave)
}

// RemoveMember takes somebody else out of a group.
func (h *handlers) RemoveMember(c echo.Context, rawID string, handle string) error {
	return h.changeGroup(c, rawID, with(h.Memberships.Remove, handle))
}

// with is a change of a group that concerns somebody else.
func with(fn func(context.Context, uuid.UUID, uuid.UUID, string) error, handle string) func(context.Context, uuid.UUID, uuid.UUID) error {
	return func(ctx context.Context, userID, id uuid.UUID) error { return fn(ctx, userID, id, handle) }
}

// changeGroup lets in who may write, changes something and answers with nothing.
func (h *handlers) changeGroup(c echo.Context, rawID string, change func(ctx context.Context, userID, id uuid.UUID) error) error {
	grant, id, err := h.admitGroup(c, admission.ScopeWrite, rawID)
	if err != nil {
		return err
	}
	if err := change(c.Request().Context(), grant.UserID, id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// admitGroup lets somebody in and reads which group is meant. What is not an id names no group.
func (h *handlers) admitGroup(c echo.Context, scope admission.Scope, rawID string) (admission.Grant, uuid.UUID, error) {
	grant, err := h.admit(c, scope)
	if err != nil {
		return grant, uuid.Nil, err
	}
	id, err := uuid.Parse(rawID)
	if err != nil || len(rawID) != 36 { // Parse also takes forms under which one group would have many names
		return grant, uuid.Nil, groups.ErrNotFound
	}
	return grant, id, nil
}

// readGroupName reads the body of a group's request.
func readGroupName(r io.Reader) (string, error) {
	fields, err := readObject(r)
	if err != nil {
		return "", err
	}
	var text *string // null is no text
	if json.Unmarshal(fields["name"], &text) != nil || text == nil {
		return "", invalid("name", "want a string")
	}
	return *text, nil
}

// badName makes a finding about the field of a name that is none.
func badName(err error) error {
	if errors.Is(err, groups.ErrBadName) {
		return invalid("name", "want 1 to 80 characters")
	}
	return err
}

// answerGroup reads the group anew, so that what is answered after a change is what is stored.
func (h *handlers) answerGroup(c echo.Context, status int, viewer, id uuid.UUID) error {
	g, err := h.Groups.Get(c.Request().Context(), viewer, id)
	if err != nil {
		return err
	}
	return writeJSON(c, status, groupAnswer(&g))
}

// groupAnswer is a group as it goes over the wire: an empty list is a list, not null.
func groupAnswer(g *groups.Group) api.Group {
	out := api.Group{
		ID: g.ID, Name: g.Name, CreatedAt: api.Instant(g.CreatedAt), Owned: g.Owned, Owner: authorOf(g.Owner), MemberCount: g.Members,
		Members: make([]api.GroupMember, len(g.People)), Invited: make([]api.GroupInvited, len(g.Invited)),
	}
	for i := range g.People {
		m := &g.People[i]
		out.Members[i] = api.GroupMember{Handle: m.Handle, AvatarURL: m.AvatarURL, Owner: m.Owner, JoinedAt: api.Instant(m.JoinedAt)}
	}
	for i := range g.Invited {
		v := &g.Invited[i]
		out.Invited[i] = api.GroupInvited{Handle: v.Handle, AvatarURL: v.AvatarURL, InvitedAt: api.Instant(v.At)}
	}
	return out
}

// authorOf is somebody as they go over the wire, nil for who is hidden.
func authorOf(p *groups.Person) *api.Author {
	if p == nil {
		return nil
	}
	return &api.Author{Handle: p.Handle, AvatarURL: p.AvatarURL}
}
