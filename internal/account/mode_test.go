package account

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/testenv"
)

func TestChangeMode(t *testing.T) {
	t.Parallel()
	full, summary, off := activity.ModeFull, activity.ModeSummary, activity.ModeOff
	b := setup(t, Config{})
	tests := []struct {
		from, to activity.Mode
		secrets  int // rows left that hold one
		hot      int // hot events and runs left
	}{
		{full, full, 4, 3},
		{full, summary, 0, 3},
		{full, off, 0, 0},
		{summary, full, 4, 3}, // there are none in truth; nothing is to be touched
		{summary, off, 2, 0},
		{off, summary, 4, 3},
		{off, full, 4, 3},
		{off, off, 4, 3},
	}
	for _, tt := range tests {
		t.Run(string(tt.from)+" to "+string(tt.to), func(t *testing.T) {
			t.Parallel()
			user, other := b.mustUser(t, tt.from), b.mustUser(t, tt.from)
			b.mustStoreSecrets(t, user)
			b.mustStoreSecrets(t, other)
			before := b.stored(t, user)

			require.NoError(t, b.ChangeMode(t.Context(), user, tt.to))
			want := privacy.Entry{Version: before.Version + 1, Mode: tt.to}
			if tt.from == tt.to {
				want.Version = before.Version
			}
			require.Equal(t, want, b.stored(t, user))
			require.Equal(t, want, b.cached(t, user))
			require.Equal(t, tt.secrets, b.secrets(t, user))
			require.Equal(t, tt.hot, b.hot(t, user))
			outbox := b.mustCount(t, `SELECT count(*) FROM outbox WHERE user_id = $1 AND version = $2`, user, want.Version)
			require.Equal(t, tt.from != tt.to, outbox == 1)

			require.Equal(t, 4, b.secrets(t, other))
			require.Equal(t, 3, b.hot(t, other))
		})
	}
}

func TestChangeModePublishesWhatIsCommitted(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	user := b.mustUser(t, activity.ModeFull)
	require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeOff))
	require.Equal(t, []activity.Mode{activity.ModeOff}, b.published)

	b.publish = errors.New("Redis is away")
	require.ErrorIs(t, b.ChangeMode(t.Context(), user, activity.ModeSummary), ErrNotShown)
	require.Equal(t, activity.ModeSummary, b.stored(t, user).Mode, "changed nevertheless, and the outbox row remains")
	b.publish = nil
	require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeSummary), "repeated")
	require.Len(t, b.published, 3)
	require.Equal(t, []int64{1, 2}, b.enqueued, "repeating raises no version")
}

// Whoever goes off, or comes back, hears it when boards do not show it, however often he asks; nobody else does.
func TestChangesThatAreNotShown(t *testing.T) {
	t.Parallel()
	full, summary, off := activity.ModeFull, activity.ModeSummary, activity.ModeOff
	for _, tt := range []struct {
		from, to activity.Mode
		zone     bool
		want     error
	}{
		{full, off, false, ErrNotShown}, {summary, off, true, ErrNotShown}, {off, off, false, ErrNotShown},
		{off, full, false, ErrNotShown}, {off, summary, true, ErrNotShown},
		{full, summary, false, nil}, {summary, full, true, nil}, {full, full, false, nil},
	} {
		b := setup(t, Config{})
		user := b.mustUser(t, tt.from)
		for _, b.publish = range []error{errors.New("a board is being built"), leaderboard.ErrAway} {
			b.mustExec(t, `UPDATE users SET privacy = $2 WHERE id = $1`, user, tt.from)
			change := Change{Mode: &tt.to}
			if tt.zone {
				change.Zone = ptr("Asia/Tokyo")
			}
			require.Equal(t, tt.want, b.Change(t.Context(), user, change), "%s to %s", tt.from, tt.to)
			require.Equal(t, tt.to, b.stored(t, user).Mode)
		}
		b.publish = nil
		require.NoError(t, b.ChangeMode(t.Context(), user, tt.to))
	}
}

// A boards' store that hangs costs its own bound, and is said.
func TestPublishingThatHangs(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{PublishTimeout: 20 * time.Millisecond})
	b.deps.PublishFunc = func(ctx context.Context, _ uuid.UUID) error { <-ctx.Done(); return ctx.Err() }
	require.ErrorIs(t, b.ChangeMode(t.Context(), b.mustUser(t, activity.ModeFull), activity.ModeOff), ErrNotShown)
}

// The slowest change leaves the request, of 10 s, time for an answer that reads the user.
func TestDefaultsFitIntoARequest(t *testing.T) {
	t.Parallel()
	c := Config{}.withDefaults()
	require.LessOrEqual(t, c.LockWait, c.Timeout)
	require.LessOrEqual(t, c.Timeout+2*c.CacheTimeout+c.PublishTimeout, 8*time.Second)
}

func TestChangeModeRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	var invalid *InvalidError
	require.ErrorAs(t, b.ChangeMode(t.Context(), b.mustUser(t, activity.ModeFull), "loud"), &invalid)
	require.Equal(t, "privacy", invalid.Field)
	require.ErrorIs(t, b.ChangeMode(t.Context(), uuid.New(), activity.ModeOff), ErrUnknownUser)
	require.Empty(t, b.published)
}

// What the cache holds at the moment of the commit: a stricter mode is there before it, a looser one is not.
func TestCacheIsNeverLooserThanTheDatabase(t *testing.T) {
	t.Parallel()
	full, summary, off := activity.ModeFull, activity.ModeSummary, activity.ModeOff
	for _, tt := range []struct{ from, to, atCommit activity.Mode }{
		{full, summary, summary}, {full, off, off}, {summary, off, off},
		{summary, full, summary}, {off, full, off}, {off, summary, off},
	} {
		t.Run(string(tt.from)+" to "+string(tt.to), func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{})
			user := b.mustUser(t, tt.from)
			_, err := b.deps.Modes.Put(t.Context(), user, privacy.Entry{Mode: tt.from})
			require.NoError(t, err)
			b.deps.DB = &onCommit{DB: b.deps.DB, fn: func() {
				require.Equal(t, tt.from, b.stored(t, user).Mode, "not committed yet")
				require.Equal(t, tt.atCommit, b.cached(t, user).Mode)
			}}
			require.NoError(t, b.ChangeMode(t.Context(), user, tt.to))
			require.Equal(t, privacy.Entry{Version: 1, Mode: tt.to}, b.cached(t, user))
		})
	}
}

// A change that does not commit leaves the cache strict at worst, and the next change replaces it.
func TestChangeModeThatDoesNotCommit(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	user := b.mustUser(t, activity.ModeSummary)
	db := b.deps.DB
	b.deps.DB = &onCommit{DB: db, err: errors.New("connection lost")}
	require.ErrorContains(t, b.ChangeMode(t.Context(), user, activity.ModeOff), "connection lost")
	require.Equal(t, privacy.Entry{Mode: activity.ModeSummary}, b.stored(t, user))
	require.Equal(t, privacy.Entry{Version: 1, Mode: activity.ModeOff}, b.cached(t, user))
	require.Empty(t, b.published)

	b.deps.DB = db
	require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeFull))
	require.Equal(t, privacy.Entry{Version: 1, Mode: activity.ModeFull}, b.cached(t, user))
}

// onCommit calls fn before each commit, and fails it with err; after a commit it calls committed.
type onCommit struct {
	DB
	fn        func()
	err       error
	committed func()
}

func (o *onCommit) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	tx, err := o.DB.BeginTx(ctx, opts)
	return &onCommitTx{Tx: tx, on: o}, err
}

type onCommitTx struct {
	pgx.Tx
	on *onCommit
}

func (tx *onCommitTx) Commit(ctx context.Context) error {
	if tx.on.err != nil {
		return tx.on.err
	}
	tx.on.fn()
	err := tx.Tx.Commit(ctx)
	if tx.on.committed != nil {
		tx.on.committed()
	}
	return err
}

// A client that goes away after the commit does not keep the cache or the boards from hearing of it.
func TestChangeModeWhoseClientHasGone(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	user := b.mustUser(t, activity.ModeSummary)
	ctx, cancel := context.WithCancel(t.Context())
	b.deps.DB = &onCommit{DB: b.deps.DB, fn: func() {}, committed: cancel}
	require.NoError(t, b.ChangeMode(ctx, user, activity.ModeFull))
	require.Equal(t, privacy.Entry{Version: 1, Mode: activity.ModeFull}, b.cached(t, user))
	require.Equal(t, []activity.Mode{activity.ModeFull}, b.published)
}

func TestChangeModeWithoutRedis(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	user := b.mustUser(t, activity.ModeFull)
	b.mustStoreSecrets(t, user)
	require.NoError(t, b.rdb.Close())
	require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeSummary))
	require.Equal(t, activity.ModeSummary, b.stored(t, user).Mode)
	require.Zero(t, b.secrets(t, user))
}

// What an ingest that came first stores is erased with everything else: the change waits for it, and reads afterwards.
func TestChangeModeWaitsForIngest(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{LockWait: time.Minute, Timeout: time.Minute})
	user, other := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	ingest, _ := b.hold(t, "pg_advisory_xact_lock_shared", store.IngestLock(user))

	changed := make(chan error, 1)
	go func() { changed <- b.ChangeMode(t.Context(), user, activity.ModeSummary) }()
	testenv.AwaitWaiters(t, b.db, 1)
	require.False(t, b.tryIngestLock(t, user), "a change that waits turns new ingests away")
	require.True(t, b.tryIngestLock(t, other), "nobody else waits")

	_, err := ingest.Exec(t.Context(), `INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, file)
		VALUES ($1, gen_random_uuid(), 1, 'go', 1, 1, 'secret')`, user)
	require.NoError(t, err)
	require.NoError(t, ingest.Commit(t.Context()))
	require.NoError(t, <-changed)
	require.Equal(t, 1, b.hot(t, user))
	require.Zero(t, b.secrets(t, user))
	require.True(t, b.tryIngestLock(t, user))
}

func TestChangesAreBusy(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"writer", "ingest"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{LockWait: 100 * time.Millisecond})
			user, other := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
			b.mustStoreSecrets(t, user)
			var release func()
			if lock == "writer" {
				_, release = b.hold(t, "pg_advisory_xact_lock", store.WriterLock(user))
				require.ErrorIs(t, b.ChangeZone(t.Context(), user, "Asia/Tokyo"), ErrBusy)
			} else {
				_, release = b.hold(t, "pg_advisory_xact_lock_shared", store.IngestLock(user))
				require.NoError(t, b.ChangeZone(t.Context(), other, "Asia/Tokyo"))
			}
			require.ErrorIs(t, b.ChangeMode(t.Context(), user, activity.ModeOff), ErrBusy)
			require.Equal(t, privacy.Entry{Mode: activity.ModeFull}, b.stored(t, user))
			require.Equal(t, privacy.Entry{}, b.cached(t, user), "a change that was not made costs no detail")
			require.Equal(t, 4, b.secrets(t, user))
			require.NoError(t, b.ChangeMode(t.Context(), other, activity.ModeOff), "nobody else waits")
			release()
			require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeOff))
		})
	}
}

// The writer lock comes free while a change waits for it.
func TestChangeModeWaitsForTheWriter(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{LockWait: time.Minute, Timeout: time.Minute})
	user := b.mustUser(t, activity.ModeFull)
	attempts := make(chan struct{}, 1000)
	b.deps.DB = &onBegin{DB: b.deps.DB, attempts: attempts}
	_, release := b.hold(t, "pg_advisory_xact_lock", store.WriterLock(user))
	changed := make(chan error, 1)
	go func() { changed <- b.ChangeMode(t.Context(), user, activity.ModeSummary) }()
	<-attempts
	<-attempts // the second is a transaction of its own
	release()
	require.NoError(t, <-changed)
}

type onBegin struct {
	DB
	attempts chan struct{}
}

func (o *onBegin) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	o.attempts <- struct{}{}
	return o.DB.BeginTx(ctx, opts)
}

// What has ended becomes sessions after the erasure and before the hot table is emptied, in the same transaction.
func TestOffFinalizesFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	user := b.mustUser(t, activity.ModeFull)
	b.mustStoreSecrets(t, user)
	var events, secrets int
	b.finalize = func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE e::text LIKE '%secret%')
			+ (SELECT count(*) FROM session_details) + (SELECT count(*) FROM archive_details)
			FROM events e WHERE user_id = $1`, user).Scan(&events, &secrets)
	}
	require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeOff))
	require.Equal(t, 2, events, "the events are still there")
	require.Zero(t, secrets, "but nothing private, of which it could make details")
	require.Zero(t, b.hot(t, user))
	require.Zero(t, b.secrets(t, user))

	b.finalize = func(context.Context, pgx.Tx) error { return errors.New("finalized for no reason") }
	require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeFull))
	require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeSummary))
}

// A user whose data cannot be finalized can leave; what has ended stays, erased, for the aggregator to try again, and the
// run that is open is dropped all the same.
func TestOffWhenFinalizeFails(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	user := b.mustUser(t, activity.ModeFull)
	b.mustStoreSecrets(t, user)
	b.mustStoreEvents(t, user, 60, 50, 1)
	b.mustExec(t, `DELETE FROM hot_runs WHERE first_s <> last_s`)
	b.finalize = func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM events WHERE user_id = $1`, user); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `SELECT 1/0`)
		return err
	}
	require.NoError(t, b.ChangeMode(t.Context(), user, activity.ModeOff))
	require.Equal(t, privacy.Entry{Version: 1, Mode: activity.ModeOff}, b.stored(t, user))
	require.Equal(t, 3, b.hot(t, user))
	require.Zero(t, b.secrets(t, user))

	user = b.mustUser(t, activity.ModeFull)
	b.finalize = func(context.Context, pgx.Tx) error { return &pgconn.PgError{Code: lockNotAvailable} }
	require.ErrorIs(t, b.ChangeMode(t.Context(), user, activity.ModeOff), ErrBusy, "that will pass")
	require.Equal(t, privacy.Entry{Mode: activity.ModeFull}, b.stored(t, user))
}

// Two changes at once: one after the other, and the cache agrees with the database in the end.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{LockWait: time.Minute, Timeout: time.Minute})
	user := b.mustUser(t, activity.ModeFull)
	for range 10 {
		errs := make(chan error, 3)
		for _, mode := range []activity.Mode{activity.ModeFull, activity.ModeSummary, activity.ModeOff} {
			go func() { errs <- b.ChangeMode(t.Context(), user, mode) }()
		}
		for range 3 {
			require.NoError(t, <-errs)
		}
		require.Equal(t, b.stored(t, user), b.cached(t, user))
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	t.Parallel()
	_, err := New(Config{}, Deps{})
	require.Error(t, err)
}
