package recapmail

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/store"
)

type counter struct{ n atomic.Int64 }

// sender is one connection of a job, with the batch that it has leased.
type sender struct {
	*Job
	conn *conn
	// fruitless is how many connections in a row broke before they had taken a mail: a server that hangs up on everything is
	// as good as away.
	fruitless int
	taken     bool            // this connection has taken a mail
	turn      bool            // a turn of the rate is had, and no mail was begun with it
	last      context.Context // ends somewhat later than the job's: for what is in hand
}

// batchMails is how many mails a connection leases at a time: enough that claiming and reading cost little per mail, few
// enough that what a process holds when it dies is soon due again.
const batchMails = 32

// The pauses while a server is away, and while there is nothing to do.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
	shortestIdle = 20 * time.Millisecond
	longestIdle  = time.Second
)

// run sends until nothing is left.
func (s *sender) run(ctx context.Context) error {
	defer func() { s.conn.close() }()
	for {
		left, err := s.waitDue(ctx)
		if err != nil || !left {
			return err
		}
		for more := true; more; {
			if more, err = s.batch(ctx); err != nil {
				return err
			}
		}
		// Nothing is due: the server should not have to wait with us.
		s.conn.close()
		s.conn = nil
	}
}

// waitDue waits until a mail is due; false says that there is none left.
func (s *sender) waitDue(ctx context.Context) (left bool, err error) {
	for {
		pending, in, err := s.Queue.Next(ctx, s.cfg.Week)
		if err == nil && (pending == 0 || in == 0) {
			return pending > 0, nil
		}
		if err := s.patience(ctx, err); err != nil {
			return false, err
		}
		if err := clock.Sleep(ctx, max(shortestIdle, min(in, longestIdle))); err != nil {
			return false, err
		}
	}
}

// patience returns an error of Postgres that waiting will not mend.
func (s *sender) patience(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !store.IsUnavailable(err) {
		return err
	}
	s.Log.WarnContext(ctx, "the database does not answer: the job waits", "err", err)
	return clock.Sleep(ctx, firstPause)
}

// takeTurn waits for a turn of the rate, but for when one is had. It stays had until a mail is begun with it: a turn that comes
// too late for the batch that waited for it must not be lost, or at a low rate every one of them would be.
func (s *sender) takeTurn(ctx context.Context) error {
	if s.turn {
		return nil
	}
	if err := s.rate.wait(ctx); err != nil {
		return err
	}
	s.turn = true
	return nil
}

// dropTurn leaves a turn to others: those kept while nothing is due would be used all at once.
func (s *sender) dropTurn() {
	if s.turn {
		s.rate.giveBack()
		s.turn = false
	}
}

// batch leases mails and sends them; false says that none was due. The turn and the connection come first: what cannot be sent
// must not be leased.
func (s *sender) batch(ctx context.Context) (more bool, err error) {
	if err := s.takeTurn(ctx); err != nil {
		return false, err
	}
	if err := s.connect(ctx); err != nil {
		return false, err
	}
	b := batch{sender: s, claim: rand.Int64(), until: s.Clock.Now().Add(s.cfg.Lease - s.cfg.mailTimeout())}
	// Not under ctx: a job that is told to stop must learn what it has leased, to give it back.
	claimCtx, cancel := context.WithTimeout(s.last, lastTimeout)
	claimed, err := s.Queue.Claim(claimCtx, s.cfg.Week, b.claim, s.cfg.Lease, batchMails)
	cancel()
	if err != nil {
		return true, s.patience(ctx, err)
	}
	if len(claimed) == 0 {
		s.dropTurn()
		return false, nil
	}
	b.left = claimed
	err = b.send(ctx)
	b.release()
	return true, err
}

// connect makes sure that there is a connection, however long that takes.
func (s *sender) connect(ctx context.Context) error {
	if s.conn == nil && s.fruitless > 0 {
		if err := clock.Sleep(ctx, min(firstPause<<min(s.fruitless-1, 8), longestPause)); err != nil {
			return err
		}
	}
	for pause := firstPause; s.conn == nil; pause = min(2*pause, longestPause) {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := s.cfg.Server.dial(ctx, s.cfg.mailTimeout())
		if err == nil {
			s.conn, s.taken = c, false
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !away(err) {
			return err
		}
		s.Log.WarnContext(ctx, "the SMTP server does not answer: the job waits", "wait", pause, "err", err)
		// Not all connections at the same moment.
		if err := clock.Sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// batch is what a connection has leased.
type batch struct {
	*sender
	claim  int64
	until  time.Time // no mail is begun after that
	left   []Claimed // not begun
	read   map[uuid.UUID]*recap.Addressed
	readAt time.Time
}

// freshFor is how old a recap may be when it is handed over: for so long a mail can be under way to somebody who has left, or
// has said that they want none.
const freshFor = 2 * time.Second

// send sends what is left of the batch, until ctx ends, the lease is short, or the connection breaks.
func (b *batch) send(ctx context.Context) error {
	for len(b.left) > 0 && b.conn != nil && ctx.Err() == nil {
		if err := b.takeTurn(ctx); err != nil {
			break // told to stop
		}
		now := b.Clock.Now()
		if !now.Before(b.until) {
			return nil
		}
		if b.read == nil || now.Sub(b.readAt) > freshFor {
			if err := b.readAll(ctx); err != nil {
				return b.patience(ctx, err)
			}
			if len(b.left) == 0 {
				return nil
			}
		}
		switch ok, err := b.start.begin(); {
		case err != nil:
			return err
		case !ok:
			if clock.Sleep(ctx, shortestIdle) != nil {
				return nil // told to stop
			}
			continue
		}
		if err := b.one(b.left[0]); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads the recaps of what is left, and drops the mails of those who want none.
func (b *batch) readAll(ctx context.Context) error {
	b.readAt = b.Clock.Now()
	users := usersOf(b.left)
	found, err := b.Reader.Of(ctx, b.cfg.Week, b.ranks, users)
	if err != nil {
		return err
	}
	b.read = make(map[uuid.UUID]*recap.Addressed, len(found))
	for i := range found {
		if found[i].Wanted {
			b.read[found[i].UserID] = &found[i]
		}
	}
	unwanted := slices.DeleteFunc(users, func(id uuid.UUID) bool { return b.read[id] != nil })
	if len(unwanted) == 0 {
		return nil
	}
	b.left = slices.DeleteFunc(b.left, func(c Claimed) bool { return b.read[c.User] == nil })
	return b.Queue.Drop(ctx, b.cfg.Week, b.claim, unwanted)
}

func usersOf(claimed []Claimed) []uuid.UUID {
	users := make([]uuid.UUID, len(claimed))
	for i, c := range claimed {
		users[i] = c.User
	}
	return users
}

// one hands the first mail over and waits until it is booked. A job that is told to stop finishes it.
func (b *batch) one(c Claimed) error {
	v := verdict{}
	defer func() { b.start.end(v) }()
	r := b.read[c.User]
	link, err := b.Links.URL(b.last, b.cfg.Letter.Base, c.User)
	if err != nil {
		return err
	}
	m, err := b.cfg.Letter.Compose(r, link, b.Clock.Now())
	if err != nil {
		return err
	}
	b.turn = false
	v = b.conn.send(m)
	b.note(v)
	if v.sender {
		return fmt.Errorf("%w with %s", ErrSenderRefused, v.reply)
	}
	if !v.charged {
		return nil // it is released with the rest
	}
	b.left = b.left[1:]
	if err := b.report.report(b.last, v.report(c, b.claim, b.cfg.Retries)); err != nil {
		return err
	}
	if v.outcome == Sent {
		b.mailed.n.Add(1)
	}
	return nil
}

// note draws the conclusions for the connection.
func (b *batch) note(v verdict) {
	if v.outcome == Sent {
		b.taken, b.fruitless = true, 0
	}
	if !v.broken {
		return
	}
	if !b.taken {
		b.fruitless++
		if v.reply != "" && !v.sender {
			b.Log.WarnContext(b.last, "the mail server puts us off: the job waits", "reply", v.reply)
		}
	}
	b.conn.hangUp()
	b.conn = nil
}

// release gives back what was not begun. What it cannot give back is due when the lease ends.
func (b *batch) release() {
	if len(b.left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(b.last, lastTimeout)
	defer cancel()
	if err := b.Queue.Release(ctx, b.cfg.Week, b.claim, usersOf(b.left)); err != nil {
		b.Log.WarnContext(ctx, "mails stay reserved until their lease ends", "mails", len(b.left), "err", err)
	}
}
