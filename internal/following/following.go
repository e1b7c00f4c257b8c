// Package following keeps who follows whom, and reads what those whom a user follows have done. To follow somebody asks
// nobody and shows nothing that is not shown to everybody: what is hidden from others stays so, and whoever goes off
// vanishes from feeds and boards at once, by the mode that is read with the data. That they are followed stays, for when they
// come back.
//
// The order of locks is that of package groups: the actor's shared ingest lock, the row of the other, the actor's count lock.
package following

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// MaxFollowing is how many others a user may follow: a feed and a board cost what they are.
const MaxFollowing = 1000

var (
	// ErrNotFound means that there is nobody of this handle whom the user may see.
	ErrNotFound = errors.New("user not found")
	// ErrSelf means that somebody wants to follow themselves.
	ErrSelf = errors.New("following oneself")
	// ErrOff means that the user is on off: nothing new is kept of them.
	ErrOff = errors.New("the user is on off")
	// ErrTooMany means that the user follows as many as one may.
	ErrTooMany = errors.New("too many are followed")
)

// DB is a pool, or a connection.
type DB interface {
	dbsqlc.DBTX
	store.Beginner
}

// Service keeps in Postgres who follows whom. It is safe for concurrent use.
type Service struct {
	db DB
	q  *dbsqlc.Queries
}

// NewService makes a Service.
func NewService(db DB) *Service { return &Service{db: db, q: dbsqlc.New()} }

// Person is a user as others see them.
type Person struct {
	Handle    string
	AvatarURL *string
}

// Followed is somebody whom a user follows.
type Followed struct {
	Person
	At time.Time // since when, UTC
}

// Follow has the user follow whoever has the handle; to do so twice changes nothing. It fails with ErrNotFound, ErrSelf,
// ErrOff or ErrTooMany.
func (s *Service) Follow(ctx context.Context, userID uuid.UUID, handle string) error {
	if !activity.IsHandle(handle) {
		return ErrNotFound
	}
	err := store.WithTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
		// A change of the user's mode, or a delete, comes wholly before or wholly after.
		if err := s.q.GroupLockActor(ctx, tx, store.IngestLock(userID)); err != nil {
			return fmt.Errorf("lock user: %w", err)
		}
		other, err := s.q.GroupFindUser(ctx, tx, handle)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNotFound
		case err != nil:
			return fmt.Errorf("find user: %w", err)
		case other.ID == userID:
			return ErrSelf
		case privacy.Hides(userID, other.ID, other.Privacy, privacy.Profile):
			return ErrNotFound
		}
		return s.followTx(ctx, tx, userID, other.ID)
	})
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return nil
}

func (s *Service) followTx(ctx context.Context, tx pgx.Tx, userID, other uuid.UUID) error {
	user, err := s.q.UserGetMode(ctx, tx, userID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read mode: %w", err)
	}
	if err != nil || user.Privacy == activity.ModeOff {
		return ErrOff // nothing is kept of who does not exist either
	}
	if err := s.q.GroupLockCount(ctx, tx, store.CountLock(userID)); err != nil {
		return fmt.Errorf("lock count: %w", err)
	}
	already, err := s.q.FollowIs(ctx, tx, userID, other)
	if err != nil || already {
		return err
	}
	n, err := s.q.FollowCount(ctx, tx, userID)
	if err != nil {
		return fmt.Errorf("count who is followed: %w", err)
	}
	if n >= MaxFollowing {
		return ErrTooMany
	}
	return s.q.FollowInsert(ctx, tx, userID, other)
}

// Unfollow has the user no longer follow whoever has the handle. It is no error if they did not, or if there is nobody of
// this handle: so it tells nothing, and who is on off, or follows somebody who is, can leave off too.
func (s *Service) Unfollow(ctx context.Context, userID uuid.UUID, handle string) error {
	if !activity.IsHandle(handle) {
		return nil
	}
	if err := s.q.FollowDelete(ctx, s.db, userID, handle); err != nil {
		return fmt.Errorf("unfollow: %w", err)
	}
	return nil
}

// List returns whom a user follows, in the order of their handles, without those who are hidden. MaxFollowing bounds it.
func (s *Service) List(ctx context.Context, userID uuid.UUID) ([]Followed, error) {
	rows, err := s.q.FollowList(ctx, s.db, userID)
	if err != nil {
		return nil, fmt.Errorf("list who is followed: %w", err)
	}
	list := make([]Followed, 0, len(rows))
	for _, r := range rows {
		if !privacy.Hides(userID, r.ID, r.Privacy, privacy.Profile) {
			list = append(list, Followed{Person: Person{Handle: r.Handle, AvatarURL: r.AvatarUrl}, At: r.FollowedAt.UTC()})
		}
	}
	return list, nil
}

// Circle is the user and all whom the user follows, in whatever mode: a board leaves out who is hidden by the mode that it
// reads itself.
func (s *Service) Circle(ctx context.Context, userID uuid.UUID) ([]uuid.UUID, error) {
	ids, err := s.q.FollowListIDs(ctx, s.db, userID)
	if err != nil {
		return nil, fmt.Errorf("list who is followed: %w", err)
	}
	return append(ids, userID), nil
}

// EraseUserTx deletes whom a user follows who is being deleted, and that others follow them. It runs in a transaction that
// holds the user's ingest lock alone, and the user's row: nobody follows them any more.
func EraseUserTx(ctx context.Context, tx pgx.Tx, userID uuid.UUID) error {
	if err := dbsqlc.New().FollowDeleteUser(ctx, tx, userID); err != nil {
		return fmt.Errorf("erase who follows whom: %w", err)
	}
	return nil
}
