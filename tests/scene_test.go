package tests

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/aggregate"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/ingest"
	"github.com/commma/commma/internal/outbox"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// scene is a stack whose users, sessions and boards the test itself sets up, at a fraction of what commands would take,
// and that knows what must stand.
type scene struct {
	*stack
	pool      *pgxpool.Pool
	rdb       redis.UniversalClient
	finalizer *aggregate.Finalizer
	seconds   map[uuid.UUID][]int64 // of the events that each user has
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return sceneOf(newStack(t))
}

func sceneOf(s *stack) *scene {
	t := s.t
	t.Helper()
	pool := openPool(t, s.database)
	t.Cleanup(pool.Close)
	rdb, err := redisconn.Open(t.Context(), s.rdb)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	return &scene{
		stack: s, pool: pool, rdb: rdb, finalizer: newFinalizer(), seconds: map[uuid.UUID][]int64{},
	}
}

func (s *scene) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

func (s *scene) user() uuid.UUID {
	s.t.Helper()
	id := uuid.New()
	s.exec(`INSERT INTO users (id, handle, token_hash) VALUES ($1, $2, '\x00')`, id, "user-"+id.String()[:8])
	return id
}

// account makes a user who can send requests.
func (s *scene) account(handle, zone string) createdUser {
	s.t.Helper()
	u, err := account.Create(s.t.Context(), s.pool, account.NewUser{Handle: handle, Zone: zone})
	require.NoError(s.t, err)
	return createdUser{ID: u.ID.String(), Handle: handle, Token: u.Token}
}

// hot has a user's events stored: one each minute from first to last, seconds since the epoch.
func (s *scene) hot(user uuid.UUID, first, last int64) {
	s.t.Helper()
	s.exec(`INSERT INTO events (user_id, id, ts, lang, keystrokes, lines)
		SELECT $1, gen_random_uuid(), n * 1000, 'go', 1, 0 FROM generate_series($2::bigint, $3::bigint, 60) n`, user, first, last)
	s.exec(`INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, $2, $3)`, user, first, last)
	for at := first; at <= last; at += 60 {
		s.seconds[user] = append(s.seconds[user], at)
	}
}

// onWholeBoards gives users a session of long ago, and has all boards whole with it: from then on boards change only as
// their users are published.
func (s *scene) onWholeBoards(users ...uuid.UUID) {
	s.t.Helper()
	for i, id := range users {
		first := hoursAgo(9)
		s.hot(id, first, first+int64(i)*minute)
	}
	s.finalize(users...)
	s.publish()
}

// finalize makes sessions of what is hot. What it changes is pending then.
func (s *scene) finalize(users ...uuid.UUID) {
	s.t.Helper()
	for _, id := range users {
		res, err := s.finalizer.Finalize(s.t.Context(), s.pool, id, nil)
		require.NoError(s.t, err)
		require.False(s.t, res.Locked)
	}
}

// publish brings all boards up to the totals.
func (s *scene) publish() {
	s.t.Helper()
	stats, err := publisher(s.pool, s.rdb).Cycle(s.t.Context(), nil)
	require.NoError(s.t, err)
	require.Zero(s.t, stats.Left)
}

// publishMeanwhile is what another process publishes while boards are being built, or seem to be: it may have to leave
// users pending.
func (s *scene) publishMeanwhile() {
	s.t.Helper()
	_, err := publisher(s.pool, s.rdb).PublishPending(s.t.Context(), nil)
	require.NoError(s.t, err)
}

// deleteFirstSession deletes a user's earliest session, and leaves the boards as they are.
func (s *scene) deleteFirstSession(user uuid.UUID) {
	s.t.Helper()
	doomed := s.sessionIDs(user)[0]
	err := store.WithTx(s.t.Context(), s.pool, func(ctx context.Context, tx pgx.Tx) error {
		return s.finalizer.DeleteSessionTx(ctx, tx, user, doomed)
	})
	require.NoError(s.t, err)
	s.forgetFirstSession(user)
}

// forgetFirstSession has a user's earliest session stand no more.
func (s *scene) forgetFirstSession(user uuid.UUID) {
	last := spansOf(user, s.seconds[user])[0].End
	s.seconds[user] = slices.DeleteFunc(s.seconds[user], func(at int64) bool { return at <= last })
}

// deleteUser deletes a user as the account service does, and leaves the boards as they are.
func (s *scene) deleteUser(user uuid.UUID) {
	s.t.Helper()
	err := store.WithTx(s.t.Context(), s.pool, func(ctx context.Context, tx pgx.Tx) error {
		version, err := dbsqlc.New().UserUpdateVersion(ctx, tx, user)
		if err != nil {
			return err
		}
		if err := ingest.EraseUserTx(ctx, tx, user); err != nil {
			return err
		}
		if err := aggregate.EraseUserTx(ctx, tx, user); err != nil {
			return err
		}
		if _, err := engagement.EraseUserTx(ctx, tx, user); err != nil {
			return err
		}
		if err := dbsqlc.New().DeleteUser(ctx, tx, user); err != nil {
			return err
		}
		return outbox.Enqueue(ctx, tx, user, version)
	})
	require.NoError(s.t, err)
	delete(s.seconds, user)
}

// spans are the sessions of all users' events: a gap of more than the idle time ends one.
func (s *scene) spans() (out []span) {
	for user, seconds := range s.seconds {
		out = append(out, spansOf(user, seconds)...)
	}
	return out
}

func spansOf(user uuid.UUID, seconds []int64) (out []span) {
	for _, at := range slices.Sorted(slices.Values(seconds)) {
		if n := len(out); n > 0 && at-out[n-1].End <= activity.IdleSeconds {
			out[n-1].End = at
			continue
		}
		out = append(out, span{User: user, Start: at - activity.WindowSeconds, End: at})
	}
	return out
}

// afterCrash lets the cycles run that come after a crash, once the tokens of dead builders are out, and compares
// everything: sessions with what must stand, totals with sessions, and every board, which must be whole, with totals.
func (s *scene) afterCrash() tally {
	s.t.Helper()
	s.expireBuilds()
	s.settle()
	return s.standing(s.pool, s.spans())
}

// expireBuilds makes the time pass for which a builder that died keeps others from its board.
func (s *scene) expireBuilds() {
	s.t.Helper()
	keys, err := s.rdb.Keys(s.t.Context(), "*").Result()
	require.NoError(s.t, err)
	for _, key := range keys {
		if strings.HasSuffix(key, ":building") || strings.HasSuffix(key, ":notes") || strings.Contains(key, ":build:") {
			require.Positive(s.t, s.rdb.PTTL(s.t.Context(), key).Val(), "%s does not expire", key)
			require.NoError(s.t, s.rdb.Del(s.t.Context(), key).Err())
		}
	}
}
