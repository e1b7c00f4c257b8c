package tests

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// Two users upload events with the same ids at the same times, and one of them deletes a session, and then everything:
// what the other has stands as if there were no one else.
func TestTrialsUsersWithTheSameEvents(t *testing.T) {
	alongside(t)
	trials := scaled(10, 1)
	s := newSuite(t, "two users with the same event ids", trials)
	eachTrial(t, s, trials, func(st *stack) tally { return st.twinTrial() })
}

// The trials see what they are there to see: where an event that one user has used up is gone for everybody, as it is
// where rows are found by the event's id alone, the other user loses sessions.
func TestTrialsUsersWithTheSameEventsWithoutIDsPerUser(t *testing.T) {
	alongside(t)
	trials := scaled(4, 1)
	s := newSuiteWithout(t, "ids per user", "two users with the same event ids", trials)
	eachTrial(t, s, trials, func(st *stack) tally {
		st.exec(`CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			DELETE FROM events WHERE id = OLD.id; RETURN NULL; END $$`)
		st.exec(`CREATE TRIGGER forget AFTER DELETE ON events FOR EACH ROW EXECUTE FUNCTION forget()`)
		return st.twinTrial()
	})
}

// twinTrial ends with the first step that finds a fault.
func (s *stack) twinTrial() (found tally) {
	pool := openPool(s.t, s.database)
	defer pool.Close()
	c := newCrowd(2, 8)
	one, other := c.users[0], c.users[1]
	other.events, one.early, other.early = one.events, nil, nil
	c.insert(s.t, pool)
	base, _ := s.serve("--no-aggregate", "--ingest-per-hour=0")
	mine, others := one.spans(), other.spans()

	step := func(want ...[]span) bool {
		found.Errors += c.upload(s.t, base) // so that both have the same events hot
		for _, u := range c.users {
			found.Errors += b2n(!s.hotOf(pool, u, len(u.events)))
		}
		return s.finalizes(pool, &found, slices.Concat(want...))
	}
	if !step(mine, others) {
		return found
	}
	// One deletes a session while the other's events of the same ids are hot.
	found.Errors += c.upload(s.t, base)
	doomed := rows[struct{ ID uuid.UUID }](s.t, pool, `SELECT id FROM sessions WHERE user_id = $1 ORDER BY started_at`, one.id)[0].ID
	s.deletes(base+"/v1/sessions/"+doomed.String(), one.token)
	if !s.finalizes(pool, &found, slices.Concat(mine[1:], others)) || !step(mine[1:], others) {
		return found
	}
	found.Errors += c.upload(s.t, base)
	s.deletes(base+"/v1/me", one.token)
	if !s.finalizes(pool, &found, others) {
		return found
	}
	c.users = []*busyUser{other}
	step(others)
	return found
}

// hotOf says whether at least n events of a user are hot.
func (s *stack) hotOf(pool *pgxpool.Pool, u *busyUser, n int) bool {
	s.t.Helper()
	return rows[struct{ N int }](s.t, pool, `SELECT count(*) FROM events WHERE user_id = $1`, u.id)[0].N >= n
}

// finalizes runs a cycle and compares, and says whether all is well so far.
func (s *stack) finalizes(pool *pgxpool.Pool, found *tally, want []span) bool {
	s.t.Helper()
	s.workerOnce("--parallel=1")
	found.add(s.standing(pool, want))
	return found.faults() == 0
}

func (s *stack) deletes(url, token string) {
	s.t.Helper()
	status, answer := call(s.t, http.MethodDelete, url, token, "")
	require.Equal(s.t, http.StatusNoContent, status, answer)
}

func b2n(b bool) int64 { return int64(b2i(b)) }

// causes make it impossible to finalize the user whose id is in @, and take themselves back.
var causes = []struct{ name, plant, heal string }{
	{
		"a statement fails",
		`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '22003'; END $f$;
		 CREATE TRIGGER fail BEFORE INSERT ON totals FOR EACH ROW WHEN (NEW.user_id = '@') EXECUTE FUNCTION fail()`,
		`DROP TRIGGER fail ON totals`,
	},
	{
		"a zone that nobody knows",
		`UPDATE user_zones SET zone = 'Mars/Base' WHERE user_id = '@'`,
		`UPDATE user_zones SET zone = 'UTC' WHERE user_id = '@'`,
	},
	{
		"the connection ends",
		`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
		 PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); RETURN NEW; END $f$;
		 CREATE TRIGGER die BEFORE INSERT ON sessions FOR EACH ROW WHEN (NEW.user_id = '@') EXECUTE FUNCTION die()`,
		`DROP TRIGGER die ON sessions`,
	},
}

// A user whose data cannot be finalized is the first of a cycle: the others stand after that cycle, the events of that
// user are kept, and count once the cause is gone.
func TestTrialsUserWhoCannotBeFinalized(t *testing.T) {
	alongside(t)
	trials := scaled(3, 1) * len(causes)
	s := newSuite(t, "a user who cannot be finalized", trials)
	for _, cause := range causes {
		t.Run(cause.name, func(t *testing.T) {
			eachTrial(t, s, trials/len(causes), func(st *stack) tally { return st.poisonTrial(cause.plant, cause.heal) })
		})
	}
}

// The trials see what they are there to see: a fault that is taken for the database's own, as that of a table that does
// not exist, sets nobody aside and ends the cycle for all.
func TestTrialsUserWhoCannotBeFinalizedWithoutSettingAside(t *testing.T) {
	alongside(t)
	trials := scaled(4, 1)
	s := newSuiteWithout(t, "setting aside", "a user who cannot be finalized", trials)
	eachTrial(t, s, trials, func(st *stack) tally {
		return st.poisonTrial(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
			$f$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '42P01'; END $f$;
			CREATE TRIGGER fail BEFORE INSERT ON totals FOR EACH ROW WHEN (NEW.user_id = '@') EXECUTE FUNCTION fail()`,
			`DROP TRIGGER fail ON totals`)
	})
}

func (s *stack) poisonTrial(plant, heal string) (found tally) {
	pool := openPool(s.t, s.database)
	defer pool.Close()
	c := newCrowd(20, 61)
	bad := c.users[0]
	// A session before all others: the user with the oldest is the first.
	bad.events = append(bad.events, plainEvent{uuid.New(), bad.events[0].ts - 10_000_000, "go"})
	for _, u := range c.users {
		u.early = u.events
	}
	c.insert(s.t, pool)
	s.exec(forUser(plant, bad.id))
	kept := int64(len(bad.events))

	stats, err := s.tryWorkerOnce("--parallel=1")
	found.Errors += b2n(err != nil || stats.Aggregate.Failed != 1 || stats.Aggregate.Finalized != len(c.users)-1)
	stand := s.standing(pool, (&crowd{users: c.users[1:]}).sessions())
	stand.Lost -= kept                   // what must still be hot
	stand.Errors = abs(stand.Errors - 1) // who is set aside
	stand.Lost += abs(kept - rows[struct{ N int64 }](s.t, pool, `SELECT count(*) FROM events WHERE user_id = $1`, bad.id)[0].N)
	found.add(stand)
	if found.faults() != 0 {
		return found
	}
	// It is not tried in every cycle.
	found.Errors += int64(s.workerOnce().Aggregate.Due)
	s.exec(forUser(heal, bad.id))
	s.exec(`UPDATE finalize_failures SET next_try_at = now()`)
	s.workerOnce()
	stand = s.standing(pool, c.sessions())
	stand.Expected, stand.Found = stand.Expected-found.Expected, stand.Found-found.Found // count no session twice
	found.add(stand)
	return found
}

func forUser(sql string, user uuid.UUID) string { return strings.ReplaceAll(sql, "@", user.String()) }

// tryWorkerOnce is workerOnce for a cycle that may fail.
func (s *stack) tryWorkerOnce(args ...string) (stats workerStats, err error) {
	s.t.Helper()
	out, err := s.command(s.t.Context(), append([]string{"worker", "--once"}, args...)...).Output()
	if err != nil {
		return stats, err
	}
	return stats, json.Unmarshal(out, &stats)
}
