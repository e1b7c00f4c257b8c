package views

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/redisconn"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
	"github.com/commma/commma/internal/writebehind"
)

func TestMain(m *testing.M) { testenv.Main(m) }

type bundle struct {
	*Recorder
	pool    *pgxpool.Pool
	rdb     redis.UniversalClient
	clock   *clock.Manual
	flusher *writebehind.Flusher
}

func setup(t *testing.T) *bundle { t.Helper(); return setupOn(t, testenv.Redis(t)) }

func setupOn(t *testing.T, rdb redis.UniversalClient) *bundle {
	t.Helper()
	b := &bundle{pool: testenv.Postgres(t), rdb: rdb, clock: clock.NewManual(time.Date(2026, 6, 17, 9, 30, 0, 0, time.UTC))}
	b.Recorder = NewRecorder(rdb, b.clock, testenv.Logger(t), RecorderConfig{Timeout: time.Minute})
	b.flusher = writebehind.NewFlusher(b.pool, rdb, b.clock, Kind())
	return b
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (b *bundle) mustOwner(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.New()
	b.exec(t, `INSERT INTO user_counters (user_id) VALUES ($1)`, id)
	return id
}

// mustSession plants the counters of a session.
func (b *bundle) mustSession(t *testing.T, owner uuid.UUID) uuid.UUID {
	t.Helper()
	id := uuid.New()
	b.exec(t, `INSERT INTO session_counters (user_id, session_id) VALUES ($1, $2)`, owner, id)
	return id
}

func (b *bundle) look(t *testing.T, target Target) {
	t.Helper()
	require.True(t, b.Record(t.Context(), Viewer{User: uuid.New()}, target))
}

func (b *bundle) mustFlush(t *testing.T) {
	t.Helper()
	_, err := b.flusher.Flush(t.Context())
	require.NoError(t, err)
}

func (b *bundle) count(t *testing.T, sql string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func (b *bundle) sessionViews(t *testing.T, id uuid.UUID) int64 {
	t.Helper()
	return b.count(t, `SELECT coalesce(sum(views), 0) FROM session_counters WHERE session_id = $1`, id)
}

var here = netip.MustParseAddr("192.0.2.7")

func TestOneViewPerViewerTargetAndHour(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, user := b.mustOwner(t), uuid.New()
	profile, session := Target{Owner: owner}, Target{Owner: owner, Session: b.mustSession(t, owner)}
	ip6 := func(s string) Viewer { return Viewer{Addr: netip.MustParseAddr(s)} }
	steps := []struct {
		viewer Viewer
		target Target
		want   bool
	}{
		{Viewer{User: owner}, profile, false},
		{Viewer{User: user}, profile, true},
		{Viewer{User: user, Addr: here, Agent: "other"}, profile, false},
		{Viewer{User: user}, session, true},
		{Viewer{Addr: here}, profile, true},
		{Viewer{Addr: netip.MustParseAddr("::ffff:192.0.2.7")}, profile, false},
		{Viewer{Addr: here, Agent: "a"}, profile, true},
		{Viewer{}, profile, true},
		{ip6("2001:db8::1"), profile, true},
		{ip6("2001:db8::2"), profile, false},
		{ip6("2001:db8:0:1::1"), profile, true},
	}
	for i, s := range steps {
		require.Equal(t, s.want, b.Record(t.Context(), s.viewer, s.target), "step %d", i)
	}
	b.clock.Set(time.Date(2026, 6, 17, 9, 59, 59, 0, time.UTC))
	require.False(t, b.Record(t.Context(), Viewer{User: user}, profile))
	b.clock.Set(time.Date(2026, 6, 17, 10, 0, 0, 0, time.UTC))
	require.True(t, b.Record(t.Context(), Viewer{User: user}, profile), "another clock hour")
	b.clock.Set(time.Date(2026, 6, 18, 0, 0, 0, 0, time.UTC))
	require.True(t, b.Record(t.Context(), Viewer{User: user}, profile))
	for _, key := range b.rdb.Keys(t.Context(), "view:*").Val() {
		require.Positive(t, b.rdb.TTL(t.Context(), key).Val(), key)
	}
	b.mustFlush(t)
	require.EqualValues(t, 8, b.count(t, `SELECT views FROM user_counters WHERE user_id = $1`, owner))
	require.EqualValues(t, 1, b.sessionViews(t, session.Session))
	days, err := NewReader(b.pool, b.clock).Days(t.Context(), owner, 2)
	require.NoError(t, err)
	require.Equal(t, "2026-06-17 2026-06-18", days[0].Date.String()+" "+days[1].Date.String())
	require.Equal(t, []int64{7, 1, 1, 0}, []int64{days[0].Profile, days[0].Sessions, days[1].Profile, days[1].Sessions})
}

// Two processes agree on the gates of a day, and neither address nor agent nor viewer stands anywhere.
func TestGatesSayNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	profile, user := Target{Owner: b.mustOwner(t)}, uuid.New()
	other := NewRecorder(b.rdb, b.clock, testenv.Logger(t), RecorderConfig{Timeout: time.Minute})
	for _, v := range []Viewer{{Addr: here, Agent: "agent-x"}, {User: user}} {
		require.True(t, b.Record(t.Context(), v, profile))
		require.False(t, other.Record(t.Context(), v, profile))
	}
	keys := b.rdb.Keys(t.Context(), "*").Val()
	require.Len(t, keys, 4, "two gates, the salt and the buffer")
	for _, key := range keys {
		text := key
		if b.rdb.Type(t.Context(), key).Val() == "string" {
			text += b.rdb.Get(t.Context(), key).Val()
		} else {
			text += strings.Join(b.rdb.HKeys(t.Context(), key).Val(), " ")
		}
		for _, secret := range []string{here.String(), "agent-x", user.String()} {
			require.NotContains(t, text, secret)
		}
	}
	at := b.clock.Now()
	today, err := b.saltAt(t.Context(), at)
	require.NoError(t, err)
	tomorrow, err := b.saltAt(t.Context(), at.AddDate(0, 0, 1))
	require.NoError(t, err)
	require.NotEqual(t, today, tomorrow)
}

func TestApplyDropsWhatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, off := b.mustOwner(t), b.mustOwner(t)
	kept, hidden := b.mustSession(t, owner), b.mustSession(t, off)
	b.exec(t, `UPDATE user_counters SET keeps = false WHERE user_id = $1`, off)
	b.look(t, Target{Owner: owner})
	b.look(t, Target{Owner: owner, Session: kept})
	b.look(t, Target{Owner: owner, Session: uuid.New()})
	b.look(t, Target{Owner: uuid.New()})
	b.look(t, Target{Owner: off})
	b.look(t, Target{Owner: off, Session: hidden})
	require.NoError(t, b.rdb.HSet(t.Context(), writebehind.KeysOf(Name, 0).Buf, "junk", "1", owner.String()+":profile:2026-06-17x", "1").Err())
	b.mustFlush(t)
	require.EqualValues(t, 1, b.count(t, `SELECT sum(views)::bigint FROM user_counters`))
	require.EqualValues(t, 1, b.count(t, `SELECT sum(views)::bigint FROM session_counters`))
	require.EqualValues(t, 1, b.count(t, `SELECT count(*) FROM view_days WHERE user_id = $1 AND profile = 1 AND sessions = 1`, owner))
	require.EqualValues(t, 1, b.count(t, `SELECT count(*) FROM view_days`))
	require.Zero(t, b.rdb.Exists(t.Context(), writebehind.KeysOf(Name, 0).Proc).Val(), "junk holds nothing up")
}

// absorb is what a merge does to the counters of a session.
func absorb(ctx context.Context, tx pgx.Tx, owner, absorbed, heir uuid.UUID) error {
	for _, sql := range []string{
		`UPDATE session_counters SET views = views + (SELECT views FROM session_counters WHERE user_id = $1 AND session_id = $2) WHERE user_id = $1 AND session_id = $3`,
		`WITH gone AS (DELETE FROM session_counters WHERE user_id = $1 AND session_id = $2) INSERT INTO session_aliases (user_id, id, heir) VALUES ($1, $2, $3)`,
	} {
		if _, err := tx.Exec(ctx, sql, owner, absorbed, heir); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `UPDATE session_aliases SET heir = $2 WHERE heir = $1`, absorbed, heir)
	return err
}

// What belongs to an absorbed session goes to its heir, whether it was absorbed before the flush or while the flush waits
// for its row, and also when the heir is absorbed in turn.
func TestApplyFollowsHeirs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.mustOwner(t)
	first, second, heir, last := b.mustSession(t, owner), b.mustSession(t, owner), b.mustSession(t, owner), b.mustSession(t, owner)
	merge := func(ctx context.Context, absorbed, heir uuid.UUID) error {
		return store.WithTx(ctx, b.pool, func(ctx context.Context, tx pgx.Tx) error { return absorb(ctx, tx, owner, absorbed, heir) })
	}
	for _, session := range []uuid.UUID{first, second, heir} {
		b.look(t, Target{Owner: owner, Session: session})
	}
	require.NoError(t, merge(t.Context(), first, heir))
	flushed := make(chan error, 1)
	require.NoError(t, store.WithTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := absorb(ctx, tx, owner, second, heir); err != nil {
			return err
		}
		if err := absorb(ctx, tx, owner, heir, last); err != nil {
			return err
		}
		go func() {
			_, err := b.flusher.Flush(context.WithoutCancel(ctx))
			flushed <- err
		}()
		testenv.AwaitWaiters(t, b.pool, 1)
		return nil
	}))
	require.NoError(t, <-flushed)
	require.EqualValues(t, 3, b.sessionViews(t, last))
	require.EqualValues(t, 1, b.count(t, `SELECT count(*) FROM session_counters`))
	require.EqualValues(t, 3, b.count(t, `SELECT sessions FROM view_days WHERE user_id = $1`, owner))
}

// A user is erased while a flush waits for the row: nothing of the user comes back.
func TestApplyBesideAnErase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, other := b.mustOwner(t), b.mustOwner(t)
	b.look(t, Target{Owner: owner})
	b.look(t, Target{Owner: owner, Session: b.mustSession(t, owner)})
	b.look(t, Target{Owner: other})
	flushed := make(chan error, 1)
	require.NoError(t, store.WithTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := EraseUserTx(ctx, tx, owner); err != nil {
			return err
		}
		go func() {
			_, err := b.flusher.Flush(context.WithoutCancel(ctx))
			flushed <- err
		}()
		testenv.AwaitWaiters(t, b.pool, 1)
		return nil
	}))
	require.NoError(t, <-flushed)
	for _, table := range []string{"user_counters", "session_counters", "view_days"} {
		require.Zero(t, b.count(t, `SELECT count(*) FROM `+table+` WHERE user_id = $1`, owner), table)
	}
	require.EqualValues(t, 1, b.count(t, `SELECT views FROM user_counters WHERE user_id = $1`, other))
}

func TestForget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, other := b.mustOwner(t), b.mustOwner(t)
	k := writebehind.KeysOf(Name, 0)
	b.look(t, Target{Owner: owner})
	require.NoError(t, b.rdb.Rename(t.Context(), k.Buf, k.Proc).Err())
	b.look(t, Target{Owner: owner, Session: uuid.New()})
	b.look(t, Target{Owner: other})
	require.NoError(t, b.Forget(t.Context(), owner))
	require.Zero(t, b.rdb.Exists(t.Context(), k.Proc).Val())
	require.EqualValues(t, 1, b.rdb.HLen(t.Context(), k.Buf).Val())
	b.mustFlush(t)
	require.EqualValues(t, 1, b.count(t, `SELECT views FROM user_counters WHERE user_id = $1`, other))
	require.EqualValues(t, 0, b.count(t, `SELECT views FROM user_counters WHERE user_id = $1`, owner))
}

// A Redis that hangs costs one look its timeout, the next ones nothing, and one line in the log.
func TestRecordWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	rdb, err := redisconn.Open(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	b := setupOn(t, rdb)
	var log bytes.Buffer
	const timeout = 200 * time.Millisecond
	b.Recorder = NewRecorder(rdb, b.clock, slog.New(slog.NewTextHandler(&log, nil)), RecorderConfig{Timeout: timeout, Pause: time.Hour})
	profile := Target{Owner: b.mustOwner(t)}
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
	start := clock.System{}.Now()
	for range 50 {
		require.False(t, b.Record(t.Context(), Viewer{User: uuid.New()}, profile))
	}
	require.Less(t, clock.System{}.Now().Sub(start), timeout+time.Second)
	require.Equal(t, 1, strings.Count(log.String(), "not recorded"))
}
