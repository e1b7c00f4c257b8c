package groups

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Invite invites whoever has the handle into a group of the user's; to do so twice changes nothing. It fails with
// ErrNotFound (also when there is nobody of this handle whom the user may see), ErrNotOwner, ErrOff, ErrMember or ErrTooMany.
func (s *Service) Invite(ctx context.Context, userID, id uuid.UUID, handle string) error {
	err := s.act(ctx, userID, func(ctx context.Context, tx pgx.Tx) error {
		// Before anything of the invited is locked: strangers must not be able to hold up others.
		is, err := s.standing(ctx, tx, userID, id)
		if err != nil {
			return err
		}
		if err := is.owns(); err != nil {
			return err
		}
		invitee, err := s.lockInvitee(ctx, tx, userID, handle)
		if err != nil {
			return err
		}
		return s.invite(ctx, tx, userID, id, invitee)
	})
	if err != nil {
		return fmt.Errorf("invite: %w", err)
	}
	return nil
}

// lockInvitee finds a user and holds them: they are not deleted, nor invited by somebody else, until the transaction ends.
func (s *Service) lockInvitee(ctx context.Context, tx pgx.Tx, viewer uuid.UUID, handle string) (uuid.UUID, error) {
	if !activity.IsHandle(handle) {
		return uuid.Nil, ErrNotFound
	}
	u, err := s.q.GroupFindUser(ctx, tx, handle)
	if err != nil {
		return uuid.Nil, absent("find user", err)
	}
	if privacy.Hides(viewer, u.ID, u.Privacy, privacy.Profile) {
		return uuid.Nil, ErrNotFound
	}
	if err := s.q.GroupLockCount(ctx, tx, store.CountLock(u.ID)); err != nil {
		return uuid.Nil, fmt.Errorf("lock invitations: %w", err)
	}
	return u.ID, nil
}

func (s *Service) invite(ctx context.Context, tx pgx.Tx, userID, id, invitee uuid.UUID) error {
	is, err := s.lock(ctx, tx, userID, id)
	if err != nil {
		return err
	}
	if err := is.owns(); err != nil { // it may have been handed over meanwhile
		return err
	}
	other, err := s.standing(ctx, tx, invitee, id)
	switch {
	case err != nil:
		return err
	case other.Member:
		return ErrMember
	case other.Invited:
		return nil
	case is.Members+is.Invitations >= MaxMembers:
		return ErrTooMany
	}
	n, err := s.q.GroupCountInvitationsOf(ctx, tx, userID, invitee)
	if err != nil {
		return fmt.Errorf("count invitations: %w", err)
	}
	if n.Open >= MaxInvitations || n.FromOwner >= MaxInvitationsFrom {
		return ErrTooMany
	}
	return s.q.GroupInsertInvitation(ctx, tx, id, invitee)
}

// Withdraw takes an invitation back. It fails with ErrNotFound (also when whoever has the handle is shown and not invited) or
// ErrNotOwner. Of who is hidden, and of nobody, nothing is told: then there is no error, whether or not there was one.
func (s *Service) Withdraw(ctx context.Context, userID, id uuid.UUID, handle string) error {
	err := s.changeOther(ctx, userID, id, handle, func(ctx context.Context, tx pgx.Tx, other uuid.UUID) error {
		n, err := s.q.GroupDeleteInvitation(ctx, tx, id, other)
		return orNotFound(n, err)
	})
	if err != nil {
		return fmt.Errorf("withdraw invitation: %w", err)
	}
	return nil
}

// Remove takes a member out of a group of the user's. It fails with ErrNotFound (also when whoever has the handle is shown and
// no member), ErrNotOwner, or ErrMember for the owner, who leaves instead. Of who is hidden, and of nobody, nothing is told.
func (s *Service) Remove(ctx context.Context, userID, id uuid.UUID, handle string) error {
	err := s.changeOther(ctx, userID, id, handle, func(ctx context.Context, tx pgx.Tx, other uuid.UUID) error {
		if other == userID {
			return ErrMember
		}
		n, err := s.q.GroupDeleteMember(ctx, tx, []uuid.UUID{id}, other)
		return orNotFound(n, err)
	})
	if err != nil {
		return fmt.Errorf("remove member: %w", err)
	}
	return nil
}

// changeOther lets the owner take something from somebody else, in whatever mode either is: nothing new comes of it, and who
// is on off still has a place. fn fails with ErrNotFound when there is nothing to take, which the owner is not told of somebody
// hidden: the answer is the one for a handle that nobody has.
func (s *Service) changeOther(ctx context.Context, userID, id uuid.UUID, handle string, fn func(ctx context.Context, tx pgx.Tx, other uuid.UUID) error) error {
	return s.change(ctx, userID, id, func(ctx context.Context, tx pgx.Tx, is standing) error {
		if err := is.owns(); err != nil && !errors.Is(err, ErrOff) {
			return err
		}
		if !activity.IsHandle(handle) {
			return nil
		}
		// Not locked: whoever is being deleted meanwhile takes all of this along.
		u, err := s.q.ProfileGetUser(ctx, tx, handle)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("find user: %w", err)
		}
		err = fn(ctx, tx, u.ID)
		if errors.Is(err, ErrNotFound) && privacy.Hides(userID, u.ID, u.Privacy, privacy.Profile) {
			return nil
		}
		return err
	})
}

// orNotFound is for a delete that had to find one row.
func orNotFound(rows int64, err error) error {
	if err == nil && rows == 0 {
		return ErrNotFound
	}
	return err
}

// Accept makes the user a member of a group that they are invited to; to do so twice changes nothing. It fails with
// ErrNotFound (also while the owner is on off), ErrOff or ErrTooMany.
func (s *Service) Accept(ctx context.Context, userID, id uuid.UUID) error {
	err := s.act(ctx, userID, func(ctx context.Context, tx pgx.Tx) error {
		// The user's count comes before the row of the group, in the order of locks. Nobody but the user is held up by it.
		tooMany := s.countGroups(ctx, tx, userID)
		if tooMany != nil && !errors.Is(tooMany, ErrTooMany) {
			return tooMany
		}
		is, err := s.lock(ctx, tx, userID, id)
		switch {
		case err != nil:
			return err
		case is.Member:
			return nil
		case !is.Invited, activity.Mode(is.OwnerPrivacy) == activity.ModeOff:
			return ErrNotFound
		case is.off():
			return ErrOff
		case tooMany != nil:
			return tooMany
		case is.Members >= MaxMembers:
			return ErrTooMany
		}
		return s.q.GroupInsertMember(ctx, tx, id, userID)
	})
	if err != nil {
		return fmt.Errorf("accept invitation: %w", err)
	}
	return nil
}

// countGroups fails with ErrTooMany when the user has as many groups as there may be, and keeps others from being added
// until the transaction ends.
func (s *Service) countGroups(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	if err := s.q.GroupLockCount(ctx, tx, store.CountLock(userID)); err != nil {
		return fmt.Errorf("lock groups: %w", err)
	}
	n, err := s.q.GroupCountOf(ctx, tx, userID)
	if err != nil {
		return fmt.Errorf("count groups: %w", err)
	}
	if n >= MaxGroups {
		return ErrTooMany
	}
	return nil
}

// Decline answers an invitation with no, in whatever mode the owner is: nobody can be made to keep one. It fails with
// ErrNotFound.
func (s *Service) Decline(ctx context.Context, userID, id uuid.UUID) error {
	err := s.change(ctx, userID, id, func(ctx context.Context, tx pgx.Tx, is standing) error {
		if !is.Invited {
			return ErrNotFound
		}
		_, err := s.q.GroupDeleteInvitation(ctx, tx, id, userID)
		return err
	})
	if err != nil {
		return fmt.Errorf("decline invitation: %w", err)
	}
	return nil
}

// Leave takes the user out of a group; what the user owned goes to another member, or is deleted with the last one. It fails
// with ErrNotFound.
func (s *Service) Leave(ctx context.Context, userID, id uuid.UUID) error {
	err := s.change(ctx, userID, id, func(ctx context.Context, tx pgx.Tx, is standing) error {
		if !is.Member {
			return ErrNotFound
		}
		return leaveTx(ctx, tx, userID, []uuid.UUID{id})
	})
	if err != nil {
		return fmt.Errorf("leave group: %w", err)
	}
	return nil
}

// leaveTx takes a user out of groups whose rows are locked. Each step sees what the one before left.
func leaveTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID, ids []uuid.UUID) error {
	q := dbsqlc.New()
	if _, err := q.GroupDeleteMember(ctx, tx, ids, userID); err != nil {
		return fmt.Errorf("delete membership: %w", err)
	}
	if err := q.GroupHandOver(ctx, tx, ids, userID); err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	if err := q.GroupDeleteEmpty(ctx, tx, ids); err != nil {
		return fmt.Errorf("delete empty groups: %w", err)
	}
	return nil
}

// EraseUserTx takes a user who is being deleted out of all groups and invitations. It runs in a transaction that holds the
// user's ingest lock alone, and the user's row: nothing is being done in the user's name, and nobody invites them any more.
func EraseUserTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	q := dbsqlc.New()
	ids, err := q.GroupLockAll(ctx, tx, userID)
	if err != nil {
		return fmt.Errorf("lock groups: %w", err)
	}
	if len(ids) > 0 {
		if err := leaveTx(ctx, tx, userID, ids); err != nil {
			return fmt.Errorf("leave groups: %w", err)
		}
	}
	if err := q.GroupDeleteInvitationsOf(ctx, tx, userID); err != nil {
		return fmt.Errorf("erase invitations: %w", err)
	}
	return nil
}
