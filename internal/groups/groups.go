package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// The limits.
const (
	MaxMembers         = 100 // of a group, those invited included
	MaxGroups          = 50  // that one user is a member of
	MaxInvitations     = 50  // that one user has not answered, without those of owners on off
	MaxInvitationsFrom = 5   // of these, from one owner, so that nobody uses up somebody's alone
)

// DB is a pool, or a connection.
type DB interface {
	dbsqlc.DBTX
	store.Beginner
}

// Service keeps groups in Postgres. It is safe for concurrent use.
type Service struct {
	db DB
	q  *dbsqlc.Queries
}

// NewService makes a Service.
func NewService(db DB) *Service { return &Service{db: db, q: dbsqlc.New()} }

// Person is a user as the others of a group see them.
type Person struct {
	Handle    string
	AvatarURL *string
}

// Summary is a group in short.
type Summary struct {
	ID        uuid.UUID
	Name      string
	CreatedAt time.Time // UTC
	Owned     bool      // by who asks
	Owner     *Person   // nil while the owner is on off
	Members   int64     // that who asks may see
}

// Member is one member of a group.
type Member struct {
	Person
	Owner    bool
	JoinedAt time.Time // UTC
}

// Invited is somebody who has not answered an invitation yet.
type Invited struct {
	Person
	At time.Time // UTC
}

// Group is a group in full.
type Group struct {
	Summary
	People  []Member  // first who has been there longest; without those on off, but for who asks
	Invited []Invited // first who was invited first; for the owner alone
}

// Invitation is one that a user has not answered yet.
type Invitation struct {
	Group uuid.UUID
	Name  string // of the group
	Owner Person
	At    time.Time // UTC
}

// Create makes a group that the user owns. It fails with ErrBadName, ErrOff or ErrTooMany.
func (s *Service) Create(ctx context.Context, userID uuid.UUID, name string) (uuid.UUID, error) {
	name, err := cleanName(name)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return uuid.Nil, fmt.Errorf("make group id: %w", err)
	}
	err = s.act(ctx, userID, func(ctx context.Context, tx pgx.Tx) error {
		user, err := s.q.UserGetMode(ctx, tx, userID)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("read mode: %w", err)
		}
		if err != nil || user.Privacy == activity.ModeOff {
			return ErrOff // nothing is kept of who does not exist either
		}
		if err := s.countGroups(ctx, tx, userID); err != nil {
			return err
		}
		return s.q.GroupInsert(ctx, tx, dbsqlc.GroupInsertParams{ID: id, OwnerID: userID, Name: name})
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("create group: %w", err)
	}
	return id, nil
}

// List returns the groups that a user is a member of, first the one joined first, and the invitations that the user has not
// answered, newest first and without those of owners on off. Both are bounded by the limits.
func (s *Service) List(ctx context.Context, userID uuid.UUID) ([]Summary, []Invitation, error) {
	rows, err := s.q.GroupListOf(ctx, s.db, userID)
	if err != nil {
		return nil, nil, fmt.Errorf("list groups: %w", err)
	}
	list := make([]Summary, 0, len(rows))
	for _, r := range rows {
		list = append(list, Summary{
			ID: r.ID, Name: r.Name, CreatedAt: r.CreatedAt.UTC(), Owned: r.OwnerID == userID, Members: r.Members,
			Owner: person(userID, r.OwnerID, r.Privacy, r.Handle, r.AvatarUrl),
		})
	}
	invited, err := s.q.GroupListInvitationsOf(ctx, s.db, userID, MaxInvitations)
	if err != nil {
		return nil, nil, fmt.Errorf("list invitations: %w", err)
	}
	invitations := make([]Invitation, 0, len(invited))
	for _, r := range invited {
		if owner := person(userID, r.OwnerID, r.Privacy, r.Handle, r.AvatarUrl); owner != nil {
			invitations = append(invitations, Invitation{Group: r.ID, Name: r.Name, Owner: *owner, At: r.InvitedAt.UTC()})
		}
	}
	return list, invitations, nil
}

// Get returns a group to one of its members. It fails with ErrNotFound.
func (s *Service) Get(ctx context.Context, viewer, id uuid.UUID) (Group, error) {
	rows, err := s.q.GroupListMembers(ctx, s.db, id, viewer)
	if err != nil {
		return Group{}, fmt.Errorf("read group: %w", err)
	}
	if len(rows) == 0 {
		return Group{}, ErrNotFound
	}
	g := Group{Summary: Summary{
		ID: id, Name: rows[0].Name, CreatedAt: rows[0].CreatedAt.UTC(), Owned: rows[0].OwnerID == viewer,
	}}
	for _, r := range rows {
		p := person(viewer, r.ID, r.Privacy, r.Handle, r.AvatarUrl)
		if p == nil {
			continue
		}
		m := Member{Person: *p, Owner: r.ID == r.OwnerID, JoinedAt: r.JoinedAt.UTC()}
		if m.Owner {
			g.Owner = p
		}
		g.People = append(g.People, m)
	}
	g.Members = int64(len(g.People))
	if !g.Owned {
		return g, nil
	}
	g.Invited, err = s.invited(ctx, viewer, id)
	return g, err
}

func (s *Service) invited(ctx context.Context, viewer, id uuid.UUID) ([]Invited, error) {
	rows, err := s.q.GroupListInvited(ctx, s.db, id)
	if err != nil {
		return nil, fmt.Errorf("list who is invited: %w", err)
	}
	var list []Invited
	for _, r := range rows {
		if p := person(viewer, r.ID, r.Privacy, r.Handle, r.AvatarUrl); p != nil {
			list = append(list, Invited{Person: *p, At: r.InvitedAt.UTC()})
		}
	}
	return list, nil
}

// MemberIDs are all members of a group, for one of them: those on off as well, whom a board leaves out by the mode that it
// reads itself. It fails with ErrNotFound.
func (s *Service) MemberIDs(ctx context.Context, viewer, id uuid.UUID) ([]uuid.UUID, error) {
	ids, err := s.q.GroupListMemberIDs(ctx, s.db, id)
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	if !slices.Contains(ids, viewer) {
		return nil, ErrNotFound
	}
	return ids, nil
}

// person is a user as the viewer sees them, nil when hidden. Who is shown in a group is who has a profile.
func person(viewer, userID uuid.UUID, mode activity.Mode, handle string, avatarURL *string) *Person {
	if privacy.Hides(viewer, userID, mode, privacy.Profile) {
		return nil
	}
	return &Person{Handle: handle, AvatarURL: avatarURL}
}
