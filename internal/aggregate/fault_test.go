package aggregate

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// inEnqueue makes the finalizer call fn, outside of its transaction, after it has read and written everything but before
// it deletes what it used.
func (f *fixture) inEnqueue(fn func(user uuid.UUID)) {
	f.agg.finalizer.enqueue = func(ctx context.Context, db dbsqlc.DBTX, user uuid.UUID, version int64) error {
		fn(user)
		return enqueue(ctx, db, user, version)
	}
}

// A scanner that merges a user's marks while the user is finalized leaves one that stands for nothing. Merged with the
// marks of later events, it must not take those with it.
func TestStaleMarkTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	var all []activity.Event
	for s := int64(0); s <= openLimit; s += 800 {
		all = append(all, at(noon+s, "go", 1))
		f.upload(user, all[len(all)-1])
	}
	last := all[len(all)-1].Second()
	early := time.Unix(last, 0)
	f.inEnqueue(func(uuid.UUID) {
		_, err := dbsqlc.New().ScanDueUsers(t.Context(), f.pool, &early)
		require.NoError(t, err)
	})
	f.cycle(noon + openLimit)
	f.inEnqueue(func(uuid.UUID) {})
	for _, s := range []int64{600, 1200} {
		all = append(all, at(last+s, "go", 1))
		f.upload(user, all[len(all)-1])
	}
	f.cycle(last + 1300)
	f.cycle(last + 1200 + 901)
	f.cycle(last + 1200 + 901)
	f.requireStands(user, utc, all...)
	require.Zero(t, f.count(`SELECT count(*) FROM events`))
	require.Zero(t, f.count(`SELECT count(*) FROM hot_runs`))
}

// between runs fn when a query starts, once.
type between struct {
	query string
	fn    func()
}

func (b *between) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if fn := b.fn; fn != nil && strings.Contains(d.SQL, "-- name: "+b.query) {
		b.fn = nil
		fn()
	}
	return ctx
}

func (b *between) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A batch that is committed between any two reads of a finalize is finalized later, with nothing else uploaded.
func TestBatchBetweenTheReads(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"FinalizeGetUser", "FinalizeGetHotRuns", "FinalizeGetEvents", "FinalizeGetTouchedSessions"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testenv.PostgresURL(t)
			plain, err := store.Open(t.Context(), url, store.Options{})
			require.NoError(t, err)
			t.Cleanup(plain.Close)
			trace := &between{query: name}
			traced, err := store.Open(t.Context(), url, store.Options{Tracer: trace})
			require.NoError(t, err)
			t.Cleanup(traced.Close)
			f := &fixture{t: t, pool: plain, agg: New(traced, NewFinalizer(enqueue), clock.System{}, testenv.Logger(t), 1)}

			user := f.user("UTC", activity.ModeFull)
			a, b := at(noon, "go", 1), at(noon+300, "c", 1)
			f.upload(user, a)
			trace.fn = func() { f.upload(user, b) }
			f.cycle(noon + 2000)
			require.Nil(t, trace.fn, "the batch came in between")
			f.cycle(noon + 2000)
			f.requireStands(user, utc, a, b)
			require.Zero(t, f.count(`SELECT count(*) FROM events`))
		})
	}
}

// failFor makes every change of a user's totals fail with an SQLSTATE.
func (f *fixture) failFor(user uuid.UUID, state string) {
	f.t.Helper()
	f.exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '` + state + `'; END $$`)
	f.exec(`CREATE TRIGGER fail BEFORE INSERT ON totals FOR EACH ROW WHEN (NEW.user_id = '` + user.String() + `') EXECUTE FUNCTION fail()`)
}

// A server that restarts, or a network that breaks, loses everybody who is under way. Once the database answers again, that
// is nobody's fault: nobody is set aside.
func TestLostConnectionsAreTriedAgain(t *testing.T) {
	t.Parallel()
	own := testenv.OwnPostgres(t)
	pool, err := store.Open(t.Context(), own.URL(), store.Options{})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	f := &fixture{t: t, pool: pool, agg: New(pool, NewFinalizer(enqueue), clock.System{}, testenv.Logger(t), 2)}
	event := at(noon, "go", 1)
	users := []uuid.UUID{f.user("UTC", activity.ModeFull), f.user("UTC", activity.ModeFull), f.user("UTC", activity.ModeFull)}
	for _, id := range users {
		f.upload(id, event)
	}
	var under sync.WaitGroup
	under.Add(2)
	var once sync.Once
	var begun atomic.Int32
	f.inEnqueue(func(uuid.UUID) {
		if begun.Add(1) > 2 {
			return
		}
		under.Done()
		under.Wait() // two are under way
		once.Do(func() {
			require.NoError(t, own.Kill(t.Context()))
			require.NoError(t, own.Restart(t.Context()))
		})
	})
	s := f.cycle(noon + 2000)
	require.Equal(t, 3, s.Finalized)
	require.Zero(t, f.count(`SELECT count(*) FROM finalize_failures`))
	for _, id := range users {
		f.requireStands(id, utc, event)
	}
}

// Whatever fails with one user, the others of the cycle are finalized, and the next cycle does not meet it again.
func TestOneUsersFaultIsNotTheOthers(t *testing.T) {
	t.Parallel()
	for state, setAside := range map[string]bool{
		"22003": true,  // a number out of range
		"57014": true,  // a cancelled statement
		"57P01": true,  // a backend that was ended
		"XX000": true,  // an internal error
		"40P01": false, // a deadlock: passes
		"55P03": false, // a lock that was not to be had: passes
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.agg.parallel = 1
			bad := f.user("UTC", activity.ModeFull)
			f.upload(bad, at(noon-10_000, "go", 1)) // the first to be due
			f.failFor(bad, state)
			event := at(noon, "go", 1)
			good := []uuid.UUID{f.user("UTC", activity.ModeFull), f.user("UTC", activity.ModeFull)}
			for _, id := range good {
				f.upload(id, event)
			}
			s := f.cycle(noon + 2000)
			require.Equal(t, 2, s.Finalized)
			for _, id := range good {
				f.requireStands(id, utc, event)
			}
			if setAside {
				require.Equal(t, 1, s.Failed)
				require.Zero(t, f.cycle(noon+2000).Due)
			} else {
				require.Equal(t, 1, s.Retried)
				require.Equal(t, 1, f.cycle(noon+2000).Due)
			}
			require.Equal(t, int64(1), f.count(`SELECT count(*) FROM events`), "nothing is lost")
		})
	}
}

func TestWrongSchemaIsNobodysFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	f.upload(user, at(noon, "go", 1))
	f.exec(`ALTER TABLE totals RENAME TO elsewhere`)
	now := time.Unix(noon+2000, 0)
	_, err := f.agg.Cycle(t.Context(), &now)
	require.Error(t, err)
	require.Zero(t, f.count(`SELECT count(*) FROM finalize_failures`))
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]faultKind{
		"08006": faultConnection, "57P03": faultConnection, "42P01": faultDatabase, "58030": faultDatabase,
		"53300": faultPassing, "25006": faultPassing, "23514": faultData, "22P02": faultData,
	} {
		require.Equal(t, fault{want, state}, classify(&pgconn.PgError{Code: state}), state)
	}
	require.Equal(t, faultConnection, classify(context.DeadlineExceeded).kind)
	require.Equal(t, faultData, classify(errArchiveGone).kind)
	require.Equal(t, faultData, classify(pgx.ErrTxClosed).kind)
}

func TestPanicIsOneUsersFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad, good := f.user("UTC", activity.ModeFull), f.user("UTC", activity.ModeFull)
	event := at(noon, "go", 1)
	f.upload(bad, event)
	f.upload(good, event)
	f.inEnqueue(func(user uuid.UUID) {
		if user == bad {
			panic("of " + user.String())
		}
	})
	s := f.cycle(noon + 2000)
	require.Equal(t, 1, s.Failed)
	f.requireStands(good, utc, event)
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM finalize_failures WHERE reason = 'panic'`))
}

// A user with a great many events is written down before the attempt, and struck out after it: a process that dies of it
// leaves that user set aside, and does not die of it again at once.
func TestHeavyUserIsWrittenDownFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.user("UTC", activity.ModeFull)
	events := make([]activity.Event, lightEvents+1)
	for i := range events {
		events[i] = at(noon+int64(i)/60, "go", 1)
	}
	f.upload(user, events...)
	var seen int64
	f.inEnqueue(func(uuid.UUID) {
		seen = f.count(`SELECT count(*) FROM finalize_failures WHERE next_try_at > now()`)
	})
	s := f.cycle(noon + 10_000)
	require.Equal(t, 1, s.Finalized)
	require.Equal(t, int64(1), seen)
	require.Zero(t, f.count(`SELECT count(*) FROM finalize_failures`))
	f.requireStands(user, utc, events...)

	// A late event touches as many. Inside a request, where there is no writing down, that is refused.
	late := at(noon-300, "go", 1)
	f.upload(user, late)
	err := pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		now := time.Unix(noon+10_000, 0)
		_, err := f.agg.finalizer.FinalizeTx(t.Context(), tx, user, &now)
		return err
	})
	require.ErrorIs(t, err, errHeavy)
	require.Equal(t, 1, f.cycle(noon+10_000).Finalized)
	f.requireStands(user, utc, append(events, late)...)
}

// Users with a great many events wait until everybody else is done, and one whom somebody else has is not set aside for it.
func TestHeavyUsersComeLast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agg.parallel = 1
	heavy, light := f.user("UTC", activity.ModeFull), f.user("UTC", activity.ModeFull)
	events := make([]activity.Event, lightEvents+1)
	for i := range events {
		events[i] = at(noon-20_000+int64(i)/60, "go", 1) // the first to be due
	}
	f.upload(heavy, events...)
	f.upload(light, at(noon, "go", 1))
	var order []uuid.UUID
	f.inEnqueue(func(user uuid.UUID) { order = append(order, user) })
	require.Equal(t, 2, f.cycle(noon+2000).Finalized)
	require.Equal(t, []uuid.UUID{light, heavy}, order)

	f.upload(heavy, at(noon-20_001, "c", 1))
	real := f.agg.finalizer.lock
	tries := 0
	f.agg.finalizer.lock = func(ctx context.Context, tx pgx.Tx, user uuid.UUID) (bool, error) {
		if tries++; tries == 2 { // the attempt that was written down
			return false, nil
		}
		return real(ctx, tx, user)
	}
	require.Equal(t, 1, f.cycle(noon+2000).Skipped)
	require.Equal(t, 1, f.cycle(noon+2000).Finalized, "due again at once")
	require.Zero(t, f.count(`SELECT count(*) FROM finalize_failures`))
}

// Nothing is written down of a user who is gone.
func TestDeletedUserIsNotSetAside(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rows, err := dbsqlc.New().ScanUpsertFailure(t.Context(), f.pool, "test", uuid.New())
	require.NoError(t, err)
	require.Empty(t, rows)
	require.Zero(t, f.count(`SELECT count(*) FROM finalize_failures`))

	gone := uuid.New()
	require.NoError(t, pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		return f.agg.finalizer.HealTx(t.Context(), tx, Repair{User: gone})
	}))
	require.Zero(t, f.count(`SELECT count(*) FROM outbox`), "the delete told the outbox")
	require.NoError(t, pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		return f.agg.finalizer.HealTx(t.Context(), tx, Repair{User: gone, Above: 7})
	}))
	require.Equal(t, int64(versionOfTheGone), f.count(`SELECT version FROM outbox`), "above whatever any board holds")
}

// A commit whose answer is lost may have been made, and somebody else may finalize a user who failed: then nothing is left to
// try again, and nobody is counted as set aside.
func TestSetAsideForNothingIsStruckOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	done, due := f.user("UTC", activity.ModeFull), f.user("UTC", activity.ModeFull)
	f.upload(due, at(noon, "go", 1))
	f.exec(`INSERT INTO finalize_failures VALUES ($1, 1, now(), 'test'), ($2, 1, now() + interval '1 hour', 'test')`, done, due)
	require.Equal(t, int64(1), f.cycle(noon+2000).SetAside)
	require.Equal(t, int64(1), f.count(`SELECT count(*) FROM finalize_failures WHERE user_id = $1`, due))
}
