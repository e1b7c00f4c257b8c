package engagement

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// verifyPage is how many sessions one statement compares.
const verifyPage = 1000

// Found is what a comparison of counters with rows found. It is printed as JSON.
type Found struct {
	Sessions int64   `json:"sessions"` // compared
	Wrong    int64   `json:"wrong"`    // of them
	Missing  int64   `json:"missing"`  // of the wrong ones, those without counters
	Kudos    int64   `json:"kudos"`    // by how many in all, without signs
	Comments int64   `json:"comments"` // by how many in all, without signs
	Healed   int64   `json:"healed"`   // of the wrong sessions
	TookS    float64 `json:"took_s"`
}

// Verifier compares the counters of kudos and comments with their rows.
type Verifier struct {
	db DB
	q  *dbsqlc.Queries
}

// NewVerifier makes a Verifier over a pool.
func NewVerifier(db DB) *Verifier { return &Verifier{db: db, q: dbsqlc.New()} }

// Verify compares all sessions, a page at a time and without locks: a counter and what is pending for it are read with the
// rows in one statement, so that it reports nothing that is merely under way. With heal it corrects what it finds, each
// session under the lock of its counters. step hears how far it is.
func (v *Verifier) Verify(ctx context.Context, heal bool, step func(done, all int64, what string)) (Found, error) {
	var found Found
	all, err := v.q.CountersCount(ctx, v.db)
	if err != nil {
		return found, fmt.Errorf("count sessions: %w", err)
	}
	for after := uuid.Nil; ; {
		ids, err := v.q.CountersList(ctx, v.db, after, verifyPage)
		if err != nil {
			return found, fmt.Errorf("list sessions: %w", err)
		}
		if len(ids) == 0 {
			return found, nil
		}
		if err := v.page(ctx, ids, heal, &found); err != nil {
			return found, err
		}
		found.Sessions += int64(len(ids))
		after = ids[len(ids)-1]
		step(found.Sessions, max(all, found.Sessions), "sessions")
	}
}

func (v *Verifier) page(ctx context.Context, ids []uuid.UUID, heal bool, found *Found) error {
	wrong, err := v.q.CountersCheck(ctx, v.db, ids)
	if err != nil {
		return fmt.Errorf("compare counters: %w", err)
	}
	for _, w := range wrong {
		found.Wrong++
		found.Kudos += max(w.KudosOff, -w.KudosOff)
		found.Comments += max(w.CommentsOff, -w.CommentsOff)
		if w.Missing {
			found.Missing++
		}
		if !heal {
			continue
		}
		if err := v.heal(ctx, w.UserID, w.SessionID); err != nil {
			return err
		}
		found.Healed++
	}
	return nil
}

// heal counts a session's rows anew. The lock comes first, by a statement of its own: what is pending when the rows are counted
// stays pending until this ends.
func (v *Verifier) heal(ctx context.Context, userID, sessionID uuid.UUID) error {
	err := store.WithTx(ctx, v.db, func(ctx context.Context, tx pgx.Tx) error {
		ids := []uuid.UUID{sessionID}
		if err := v.q.EngagementInsertMissingCounters(ctx, tx, ids); err != nil {
			return err
		}
		if err := v.q.EngagementLockCounters(ctx, tx, userID, ids); err != nil {
			return err
		}
		_, err := v.q.CountersHeal(ctx, tx, userID, sessionID) // none: it was merged or deleted meanwhile, and is not wrong
		return err
	})
	if err != nil {
		return fmt.Errorf("heal counters: %w", err)
	}
	return nil
}
