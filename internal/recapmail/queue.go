package recapmail

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Outcome is what became of a mail in the end.
type Outcome string

// The outcomes. One that is Pending has none yet.
const (
	Pending Outcome = ""
	Sent    Outcome = "sent"
	Refused Outcome = "refused"  // for good, by the server
	GivenUp Outcome = "given_up" // refused for now too often
)

// Claimed is a mail on which a lease was taken.
type Claimed struct {
	User     uuid.UUID
	Attempts int // that were made before
}

// Report is what became of an attempt.
type Report struct {
	User    uuid.UUID
	Claim   int64
	Outcome Outcome       // Pending: it is to be tried again
	Wait    time.Duration // before that
	Reply   string        // the server's code, or ""
}

// Counts are the mails of a week by what became of them.
type Counts struct{ Pending, Sent, Refused, GivenUp int64 }

// All is how many mails there are.
func (c Counts) All() int64 { return c.Pending + c.Sent + c.Refused + c.GivenUp }

// Postgres is the queue of mails.
type Postgres struct{ db dbsqlc.DBTX }

// NewPostgres makes a queue over a pool.
func NewPostgres(db dbsqlc.DBTX) *Postgres { return &Postgres{db} }

// Now is the time by Postgres's clock.
func (p *Postgres) Now(ctx context.Context) (time.Time, error) {
	now, err := dbsqlc.New().RecapMailNow(ctx, p.db)
	if err != nil {
		return now, fmt.Errorf("ask the time: %w", err)
	}
	return now.UTC(), nil
}

// Enqueue puts in the mails of those of the users who want one. Those that are there, whatever became of them, stay.
func (p *Postgres) Enqueue(ctx context.Context, w recap.Week, users []uuid.UUID) error {
	if _, err := dbsqlc.New().RecapMailEnqueue(ctx, p.db, w.Start(), users); err != nil {
		return fmt.Errorf("enqueue mails: %w", err)
	}
	return nil
}

// Again has mails of a week that ended so sent as if for the first time, but never one that was sent, and says how many.
func (p *Postgres) Again(ctx context.Context, w recap.Week, outcomes []Outcome) (mails int64, err error) {
	names := make([]string, len(outcomes))
	for i, o := range outcomes {
		names[i] = string(o)
	}
	mails, err = dbsqlc.New().RecapMailAgain(ctx, p.db, w.Start(), names)
	if err != nil {
		return 0, fmt.Errorf("put mails back: %w", err)
	}
	return mails, nil
}

// Prune forgets the mails of weeks before one.
func (p *Postgres) Prune(ctx context.Context, before recap.Week) error {
	if _, err := dbsqlc.New().RecapMailPrune(ctx, p.db, before.Start()); err != nil {
		return fmt.Errorf("prune mails: %w", err)
	}
	return nil
}

// Claim takes a lease on up to n mails that are due.
func (p *Postgres) Claim(ctx context.Context, w recap.Week, claim int64, lease time.Duration, n int) ([]Claimed, error) {
	rows, err := dbsqlc.New().RecapMailClaim(ctx, store.PlanEachTime(p.db), dbsqlc.RecapMailClaimParams{
		Week: w.Start(), Claim: claim, LeaseMs: lease.Milliseconds(), MaxRows: int32(n),
	})
	if err != nil {
		return nil, fmt.Errorf("claim mails: %w", err)
	}
	claimed := make([]Claimed, len(rows))
	for i, r := range rows {
		claimed[i] = Claimed{User: r.UserID, Attempts: int(r.Attempts)}
	}
	return claimed, nil
}

// Report books attempts, and says how many of them counted: one whose lease is another's by now does
// not, unless the mail was taken.
func (p *Postgres) Report(ctx context.Context, w recap.Week, reports []Report) (booked int64, err error) {
	done, again := dbsqlc.RecapMailAckParams{Week: w.Start()}, dbsqlc.RecapMailRetryParams{Week: w.Start()}
	for _, r := range reports {
		if r.Outcome == Pending {
			again.UserIDs, again.Claims = append(again.UserIDs, r.User), append(again.Claims, r.Claim)
			again.WaitsMs, again.Replies = append(again.WaitsMs, r.Wait.Milliseconds()), append(again.Replies, r.Reply)
			continue
		}
		done.UserIDs, done.Claims = append(done.UserIDs, r.User), append(done.Claims, r.Claim)
		done.Outcomes, done.Replies = append(done.Outcomes, string(r.Outcome)), append(done.Replies, r.Reply)
	}
	q := dbsqlc.New()
	if len(done.UserIDs) > 0 {
		if booked, err = q.RecapMailAck(ctx, p.db, done); err != nil {
			return 0, fmt.Errorf("acknowledge mails: %w", err)
		}
	}
	if len(again.UserIDs) == 0 {
		return booked, nil
	}
	// Where this fails the whole is reported once more; what counted already then no longer does, and changes nothing.
	n, err := q.RecapMailRetry(ctx, p.db, again)
	if err != nil {
		return booked, fmt.Errorf("put mails off: %w", err)
	}
	return booked + n, nil
}

// Release gives mails back that were not begun: they are due at once.
func (p *Postgres) Release(ctx context.Context, w recap.Week, claim int64, users []uuid.UUID) error {
	arg := dbsqlc.RecapMailReleaseParams{Week: w.Start(), Claim: claim, UserIDs: users}
	if err := dbsqlc.New().RecapMailRelease(ctx, p.db, arg); err != nil {
		return fmt.Errorf("release mails: %w", err)
	}
	return nil
}

// Drop forgets mails that are not wanted any more.
func (p *Postgres) Drop(ctx context.Context, w recap.Week, claim int64, users []uuid.UUID) error {
	arg := dbsqlc.RecapMailDropParams{Week: w.Start(), Claim: claim, UserIDs: users}
	if err := dbsqlc.New().RecapMailDrop(ctx, p.db, arg); err != nil {
		return fmt.Errorf("drop mails: %w", err)
	}
	return nil
}

// Next says how many mails are pending, and in how long the next of them is due.
func (p *Postgres) Next(ctx context.Context, w recap.Week) (pending int64, in time.Duration, err error) {
	row, err := dbsqlc.New().RecapMailNext(ctx, p.db, w.Start())
	if err != nil {
		return 0, 0, fmt.Errorf("look for mails: %w", err)
	}
	return row.Mails, max(0, time.Duration(row.InMs)*time.Millisecond), nil
}

// Counts counts the mails of a week.
func (p *Postgres) Counts(ctx context.Context, w recap.Week) (c Counts, err error) {
	rows, err := dbsqlc.New().RecapMailCounts(ctx, p.db, w.Start())
	if err != nil {
		return c, fmt.Errorf("count mails: %w", err)
	}
	for _, r := range rows {
		switch Outcome(r.Outcome) {
		case Pending:
			c.Pending = r.Mails
		case Sent:
			c.Sent = r.Mails
		case Refused:
			c.Refused = r.Mails
		case GivenUp:
			c.GivenUp = r.Mails
		}
	}
	return c, nil
}
