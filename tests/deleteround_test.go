package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/commma/commma/internal/clock"
)

type deleteKind string

const (
	deletesUser    deleteKind = "user"
	deletesSession deleteKind = "session"
	bystands       deleteKind = "nothing"
)

// deleter is a user in a round.
type deleter struct {
	*racer
	kind    deleteKind
	fails   bool  // to be finalized, from some time before the delete on
	first   int64 // second of the first event of the session that is there to be deleted
	session uuid.UUID
	found   tally

	mu       sync.Mutex
	counting []int64 // seconds of the events that must count in the end
}

// doomedLast is from the first to the last event of the session that is there to be deleted.
const doomedLast = 23 * minute

// round has a user delete something amid all that can go on for one user, and counts what is left when the delete has
// answered, and again when all that was in flight has ended.
func (d *deleteRace) round(ctx context.Context, u *deleter) error {
	if err := d.prepareDelete(ctx, u); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	var flying errgroup.Group
	soon := func(fn func() error) {
		delay := time.Duration(rand.IntN(100)) * time.Millisecond
		flying.Go(func() error {
			_ = clock.Sleep(ctx, delay)
			return fn()
		})
	}
	for _, at := range []int64{u.first + rand.Int64N(doomedLast), hoursAgo(3) + rand.Int64N(3600), hoursAgo(3) + rand.Int64N(3600)} {
		soon(func() error { return d.uploadAt(ctx, u, at) })
	}
	soon(func() error {
		d.uncache(ctx, u.ID)
		return d.may(ctx, u, http.MethodGet, "/v1/me", "", http.StatusOK)
	})
	change := []string{`{"timezone":"Asia/Tokyo"}`, `{"privacy":"summary"}`, `{"privacy":"full"}`}[rand.IntN(3)]
	soon(func() error { return d.may(ctx, u, http.MethodPatch, "/v1/me", change, http.StatusOK) })
	soon(func() error { return d.may(ctx, u, http.MethodGet, "/v1/leaderboard?around=me", "", http.StatusOK) })
	soon(func() error { return d.engage(ctx, u) })
	_ = clock.Sleep(ctx, time.Duration(rand.IntN(100))*time.Millisecond)
	err := d.deletes(ctx, u)
	if err == nil {
		// As a client does that knows of nothing.
		soon(func() error { return d.uploadAt(ctx, u, hoursAgo(3)+rand.Int64N(3600)) })
		soon(func() error { return d.may(ctx, u, http.MethodGet, "/v1/me", "", http.StatusOK) })
		err = d.left(ctx, u, "when the delete has answered")
	}
	err = errFirst(err, flying.Wait())
	if err == nil {
		err = d.left(ctx, u, "when all has ended")
	}
	return err
}

// prepareDelete makes a user with something in all tables: sessions, one of which has absorbed another, a deleted one, a
// refused event, and events that are hot.
func (d *deleteRace) prepareDelete(ctx context.Context, u *deleter) (err error) {
	if u.racer, err = d.newRacer(ctx); err != nil {
		return err
	}
	u.happen(u.first, u.first+3*minute, u.first+20*minute, u.first+doomedLast)
	before := u.first - 4*3600
	err = errFirst(
		d.happened(ctx, u, before), d.happened(ctx, u, u.first, u.first+3*minute), d.happened(ctx, u, u.first+20*minute, u.first+doomedLast),
		d.cycle(ctx, u.racer))
	if err != nil {
		return err
	}
	u.happen(u.first + 12*minute) // now two sessions are one
	if err := errFirst(d.happened(ctx, u, u.first+12*minute), d.cycle(ctx, u.racer)); err != nil {
		return err
	}
	standing, err := collect[struct{ ID uuid.UUID }](ctx, d.pool, `SELECT id FROM sessions WHERE user_id = $1 ORDER BY started_at`, u.ID)
	if err != nil || len(standing) != 2 {
		return fmt.Errorf("%d sessions: %w", len(standing), err)
	}
	u.session = standing[1].ID
	if err := d.gone(ctx, u, "/v1/sessions/"+standing[0].ID.String(), http.StatusNotFound); err != nil {
		return err
	}
	if u.fails {
		if _, err := d.pool.Exec(ctx, `INSERT INTO trial.failing VALUES ($1)`, u.ID); err != nil {
			return err
		}
	}
	hot := hoursAgo(2)
	u.happen(hot)
	return errFirst(d.marked(ctx, u), d.happened(ctx, u, hot), d.engage(ctx, u), d.failed(ctx, u))
}

// marked has the user in the tables that only others, or what is refused, bring rows into: as owner, as giver and as author.
func (d *deleteRace) marked(ctx context.Context, u *deleter) error {
	_, err := d.pool.Exec(ctx, `WITH
		r AS (INSERT INTO rejections (user_id, reason, count) VALUES ($1, 'invalid_id', 1)),
		v AS (INSERT INTO view_days VALUES ($1, '2026-01-01', 1, 1)),
		k AS (INSERT INTO kudos (owner_id, session_id, user_id) VALUES ($1, $2, gen_random_uuid()), (gen_random_uuid(), gen_random_uuid(), $1)),
		c AS (INSERT INTO comments (id, owner_id, session_id, author_id, body)
			VALUES (gen_random_uuid(), $1, $2, gen_random_uuid(), 'a'), (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), $1, 'b')),
		g AS (INSERT INTO groups (id, owner_id, name) VALUES (gen_random_uuid(), $1, 'g') RETURNING id),
		m AS (INSERT INTO group_members (group_id, user_id) SELECT id, $1 FROM g),
		o AS (INSERT INTO groups (id, owner_id, name) VALUES (gen_random_uuid(), gen_random_uuid(), 'o') RETURNING id),
		i AS (INSERT INTO group_invitations (group_id, user_id) SELECT id, $1 FROM o),
		f AS (INSERT INTO follows (user_id, followee_id) VALUES ($1, gen_random_uuid()), (gen_random_uuid(), $1)),
		h AS (INSERT INTO former_handles (handle, user_id, until) VALUES (left($1::text, 30), $1, now() + interval '1 day')),
		w AS (INSERT INTO recap_mails (week, user_id) VALUES ('2026-01-05', $1))
		INSERT INTO counter_deltas (owner_id, session_id, kudos, comments) VALUES ($1, $2, 1, 1)`, u.ID, u.session)
	return err
}

// engage has the user and one who stays look at what the other did, give kudos and comment. Who is gone, or what, is not found.
func (d *deleteRace) engage(ctx context.Context, u *deleter) error {
	if u == d.fan {
		return nil
	}
	for _, pair := range [][2]*deleter{{u, d.fan}, {d.fan, u}} {
		session := pair[1].session.String()
		for _, r := range [][3]string{
			{http.MethodPut, "/v1/sessions/" + session + "/kudos", ""},
			{http.MethodPost, "/v1/sessions/" + session + "/comments", `{"body":"hello"}`},
			{http.MethodPost, "/v1/sessions/" + session + "/shares", ""},
			{http.MethodPost, "/v1/views", `{"target":"session:` + session + `"}`},
		} {
			err := d.until(ctx, pair[0], r[0], r[1], r[2], func(status int, _ bool) bool {
				return status == http.StatusOK || status == http.StatusCreated || u.kind != bystands && (status == http.StatusNotFound ||
					status == http.StatusForbidden)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// failed waits, for every other user who cannot be finalized, until that has shown.
func (d *deleteRace) failed(ctx context.Context, u *deleter) error {
	if !u.fails || rand.IntN(2) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		set, err := collect[struct{ N int64 }](ctx, d.pool, `SELECT count(*) FROM finalize_failures WHERE user_id = $1`, u.ID)
		if err != nil || set[0].N > 0 {
			return err
		}
		if err := clock.Sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("wait for a failure: %w", err)
		}
	}
}

// happen notes events that count, unless they are deleted.
func (u *deleter) happen(seconds ...int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counting = append(u.counting, seconds...)
}

// happened stores an event with all that can be private at each of the seconds, which are one run.
func (d *deleteRace) happened(ctx context.Context, u *deleter, seconds ...int64) error {
	_, err := d.pool.Exec(ctx, `WITH e AS (
			INSERT INTO events (user_id, id, ts, lang, keystrokes, lines, project, file, key_freq)
			SELECT $1, gen_random_uuid(), s * 1000, 'go', 1, 0, 'p', 'a.go', '{"a":1}' FROM unnest($2::bigint[]) s
		)
		INSERT INTO hot_runs (user_id, first_s, last_s) VALUES ($1, $3, $4)`, u.ID, seconds, slices.Min(seconds), slices.Max(seconds))
	return err
}

// uploadAt sends an event of a second, beside one that is refused.
func (d *deleteRace) uploadAt(ctx context.Context, u *deleter, second int64) error {
	body := fmt.Sprintf(`{"events":[{"id":"%s","ts":%d,"lang":"go","keystrokes":5,"lines":1,"file":"b.go","project":"q","key_freq":{"b":2}},{"id":"no"}]}`,
		uuid.NewString(), second*1000)
	if err := d.may(ctx, u, http.MethodPost, "/v1/ingest", body, http.StatusAccepted); err != nil {
		return err
	}
	u.happen(second) // nobody asks of who is gone
	return nil
}

// may sends a request until it is answered: with want, or, where the user may be gone, with 403.
func (d *deleteRace) may(ctx context.Context, u *deleter, method, path, body string, want int) error {
	return d.until(ctx, u, method, path, body, func(status int, _ bool) bool {
		return status == want || status == http.StatusForbidden && u.kind == deletesUser
	})
}

// gone sends a delete until it is answered. What was deleted may not be shown so yet: then it is as if it had not been there
// when it is sent again.
func (d *deleteRace) gone(ctx context.Context, u *deleter, path string, missing int) error {
	return d.until(ctx, u, http.MethodDelete, path, "", func(status int, again bool) bool {
		return status == http.StatusNoContent || again && status == missing
	})
}

// until sends a request until it is answered by other than 503; who is busy is no fault. Any answer that is not ok is.
func (d *deleteRace) until(ctx context.Context, u *deleter, method, path, body string, ok func(status int, again bool) bool) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for again := false; ; again = true {
		status, answer, err := d.try(ctx, method, d.base()+path, u.Token, []byte(body))
		switch {
		case err != nil:
			return fmt.Errorf("%s %s: %w", method, path, err)
		case status == http.StatusServiceUnavailable && clock.Sleep(ctx, 10*time.Millisecond) == nil:
			continue
		case !ok(status, again):
			return fmt.Errorf("%s %s: %d %s", method, path, status, answer)
		}
		return nil
	}
}

// deletes has the user delete what is to be deleted.
func (d *deleteRace) deletes(ctx context.Context, u *deleter) error {
	switch u.kind {
	case deletesUser:
		places, err := d.of.count(ctx, u.ID)
		if err != nil {
			return err
		}
		d.book(places)
		return d.gone(ctx, u, "/v1/me", http.StatusForbidden)
	case deletesSession:
		return d.gone(ctx, u, "/v1/sessions/"+u.session.String(), http.StatusNotFound)
	default:
		return nil
	}
}

// left counts what is left of what was deleted. An outbox row may be, which holds nothing but the id: publishing is given up
// after some time, and while the row stands a board may show the user.
func (d *deleteRace) left(ctx context.Context, u *deleter, when string) error {
	switch u.kind {
	case deletesUser:
		places, err := d.of.count(ctx, u.ID)
		pending := slices.Contains(places, place{pendingRow, 1})
		places = slices.DeleteFunc(places, func(p place) bool { return p.Place == pendingRow || p.N == 0 })
		shown, errShown := d.isShown(ctx, u.ID)
		shown = shown && !pending
		u.found.Leaked += sumOf(places) + b2n(shown)
		if len(places) > 0 || shown {
			d.t.Logf("%s, user %s, who fails: %v, shown: %v: %v", when, u.ID, u.fails, shown, places)
		}
		return errFirst(err, errShown)
	case deletesSession:
		u.mu.Lock()
		u.counting = slices.DeleteFunc(u.counting, func(at int64) bool { return at >= u.first && at <= u.first+doomedLast })
		u.mu.Unlock()
		standing, err := collect[struct{ N int64 }](ctx, d.pool, `SELECT count(*) FROM sessions WHERE id = $1`, u.session)
		if err == nil {
			u.found.Duplicates += standing[0].N
		}
		return err
	default:
		return nil
	}
}

// pendingRow is where the outbox holds a user.
const pendingRow = "outbox.user_id"

// userRows counts the rows of users in all tables.
type userRows struct {
	pool *pgxpool.Pool
	sql  string
}

func newUserRows(t *testing.T, pool *pgxpool.Pool) *userRows {
	t.Helper()
	var each []string
	for _, c := range userTables(t, pool) {
		each = append(each, fmt.Sprintf(`SELECT '%s.%s' AS place, count(*) AS n FROM %q WHERE %q = ANY ($1)`, c.Table, c.Column, c.Table, c.Column))
	}
	return &userRows{pool: pool, sql: strings.Join(each, " UNION ALL ")}
}

// count lists all tables, also those with no rows of the users.
func (r *userRows) count(ctx context.Context, users ...uuid.UUID) ([]place, error) {
	return collect[place](ctx, r.pool, r.sql, users)
}
