package groups_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/account"
	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/app"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/groups"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// bundle is the groups of a whole program.
type bundle struct {
	*groups.Service
	app *app.App
}

func setup(t *testing.T) *bundle {
	t.Helper()
	rdb, err := redisconn.New(testenv.RedisURL(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	a, err := app.New(testenv.Postgres(t), rdb, clock.System{}, testenv.Logger(t), app.Options{
		Account: account.Config{LockWait: time.Minute, Timeout: time.Minute},
	})
	require.NoError(t, err)
	return &bundle{Service: a.Groups, app: a}
}

// user makes a user on full; so many at once have handles and nothing else.
func (b *bundle) user(t *testing.T, handle string) uuid.UUID {
	t.Helper()
	u, err := b.app.Accounts.Create(t.Context(), account.NewUser{Handle: handle})
	require.NoError(t, err)
	return u.ID
}

func (b *bundle) users(t *testing.T, handles ...string) (ids []uuid.UUID) {
	t.Helper()
	for _, h := range handles {
		ids = append(ids, b.user(t, h))
	}
	return ids
}

func (b *bundle) turn(t *testing.T, user uuid.UUID, mode activity.Mode) {
	t.Helper()
	require.NoError(t, b.app.Accounts.ChangeMode(t.Context(), user, mode))
}

// group makes a group of the first, with the others as members in this order.
func (b *bundle) group(t *testing.T, owner uuid.UUID, members ...uuid.UUID) uuid.UUID {
	t.Helper()
	id, err := b.Create(t.Context(), owner, "friends")
	require.NoError(t, err)
	for _, m := range members {
		b.exec(t, `INSERT INTO group_members (group_id, user_id) VALUES ($1, $2)`, id, m)
	}
	return id
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.app.DB.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (b *bundle) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, b.app.DB.QueryRow(t.Context(), `SELECT count(*) FROM `+sql, args...).Scan(&n))
	return n
}

// handles are the members that the viewer sees.
func (b *bundle) handles(t *testing.T, viewer, id uuid.UUID) (list []string) {
	t.Helper()
	g, err := b.Get(t.Context(), viewer, id)
	require.NoError(t, err)
	for _, m := range g.People {
		list = append(list, m.Handle)
	}
	require.EqualValues(t, len(list), g.Members)
	return list
}
