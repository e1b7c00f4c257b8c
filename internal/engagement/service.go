package engagement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// DB is a pool, or a connection.
type DB interface {
	dbsqlc.DBTX
	store.Beginner
}

// Shares gathers shares: a *writebehind.Deltas.
type Shares interface {
	Add(ctx context.Context, record uuid.UUID, n int64) error
}

// Arms has the counters of a session follow its deltas: a *writebehind.Arms.
type Arms interface {
	Arm(ctx context.Context, record uuid.UUID)
}

// Service is what people do to the sessions of others. It is safe for concurrent use.
type Service struct {
	db     DB
	shares Shares
	arms   Arms
	log    *slog.Logger
	q      *dbsqlc.Queries
}

// NewService makes a Service.
func NewService(db DB, shares Shares, arms Arms, log *slog.Logger) *Service {
	return &Service{db: db, shares: shares, arms: arms, log: log, q: dbsqlc.New()}
}

// maxLooks is how often a session is looked for that goes away under our hands, each time into its heir.
const maxLooks = 5

// errVanished means that the session was there and is not any more; another look finds its heir, or that it was deleted.
var errVanished = errors.New("the session vanished")

// Given is how a session stands after somebody gave kudos, or took them back.
type Given struct {
	SessionID uuid.UUID // the session's own id; not the one asked for when that one was absorbed
	Given     bool
	Kudos     int64 // with this change, and all others that are committed, whether the session shows them yet or not
}

// Kudos gives a user's kudos to a session, or takes them back; to do so twice changes nothing. It fails with ErrNotFound (also
// when the owner is on off), ErrOwnSession, ErrOff or ErrBusy.
func (s *Service) Kudos(ctx context.Context, userID, sessionID uuid.UUID, give bool) (Given, error) {
	args := dbsqlc.EngagementKudosParams{UserID: userID, SessionID: sessionID, Give: give}
	var row dbsqlc.EngagementKudosRow
	err := s.change(ctx, userID, func(ctx context.Context, tx pgx.Tx) (err error) {
		if row, err = s.q.EngagementKudos(ctx, tx, args); err == nil && row.Vanished {
			return errVanished
		}
		return err
	})
	if err != nil {
		return Given{}, fmt.Errorf("change kudos: %w", err)
	}
	switch {
	case row.Own:
		return Given{}, ErrOwnSession
	case row.OwnerOff:
		return Given{}, ErrNotFound
	case row.GiverOff && give:
		return Given{}, ErrOff
	}
	if row.Changed {
		s.arms.Arm(ctx, row.SessionID)
	}
	return Given{SessionID: row.SessionID, Given: give, Kudos: row.Kudos}, nil
}

// Share counts one share of a session. recorded is false when Redis did not take it: that is no error, for nothing hangs on
// it. It fails with ErrNotFound (also when the owner is on off).
func (s *Service) Share(ctx context.Context, sessionID uuid.UUID) (recorded bool, err error) {
	session, err := s.session(ctx, uuid.Nil, sessionID)
	if err != nil {
		return false, err
	}
	if err := s.shares.Add(ctx, session.ID, 1); err != nil {
		s.log.WarnContext(ctx, "a share was not recorded", "err", err)
		return false, nil
	}
	return true, nil
}

// change runs one change in a user's name, in a transaction of its own, after the user's lock: modes do not change and nobody
// is deleted under it. A session that vanishes meanwhile is looked for again.
func (s *Service) change(ctx context.Context, userID uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	for range maxLooks {
		err := store.WithTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
			if err := s.q.EngagementLockUser(ctx, tx, store.IngestLock(userID)); err != nil {
				return fmt.Errorf("lock user: %w", err)
			}
			return fn(ctx, tx)
		})
		switch {
		case errors.Is(err, errVanished):
			continue
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNotFound
		}
		return err
	}
	return ErrBusy
}

// session finds a session that the viewer may see.
func (s *Service) session(ctx context.Context, viewer, id uuid.UUID) (dbsqlc.EngagementGetSessionRow, error) {
	row, err := s.q.EngagementGetSession(ctx, s.db, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, ErrNotFound
	}
	if err != nil {
		return row, fmt.Errorf("find session: %w", err)
	}
	if hidden(viewer, row.UserID, row.Privacy) {
		return row, ErrNotFound
	}
	return row, nil
}

// hidden says whether the viewer may not see that a user in this mode has sessions. Statements that change something say the
// same themselves, in the transaction that changes it.
func hidden(viewer, userID uuid.UUID, mode activity.Mode) bool {
	return privacy.Hides(viewer, userID, mode, privacy.List)
}
