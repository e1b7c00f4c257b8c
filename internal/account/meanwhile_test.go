package account

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/engagement"
	"github.com/commma/commma/internal/store/dbsqlc"
	"github.com/commma/commma/internal/testenv"
)

// TestMarksMergedMeanwhileGoToo: the scan merges the marks of an open run, and commits while a delete, or a change to off,
// waits for one that it took. The mark that it left instead is not in what the statement that waits sees.
func TestMarksMergedMeanwhileGoToo(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *bundle, user uuid.UUID) error{
		"delete": func(b *bundle, user uuid.UUID) error { return b.DeleteUser(t.Context(), user) },
		"off":    func(b *bundle, user uuid.UUID) error { return b.ChangeMode(t.Context(), user, activity.ModeOff) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{})
			user := b.mustUser(t, activity.ModeFull)
			b.mustExec(t, `INSERT INTO hot_runs (user_id, first_s, last_s) SELECT $1, now_s - ago, now_s - ago + 50
				FROM unnest(ARRAY[1000, 500]) ago, floor(extract(epoch FROM now())) now_s`, user)
			scan := testenv.Begin(t, b.db)
			due, err := dbsqlc.New().ScanDueUsers(t.Context(), scan, nil)
			require.NoError(t, err)
			require.Empty(t, due)
			changed := make(chan error, 1)
			go func() { changed <- change(b, user) }()
			testenv.AwaitWaiters(t, b.db, 1)
			require.NoError(t, scan.Commit(t.Context()))
			require.NoError(t, <-changed)
			require.Zero(t, b.mustCount(t, `SELECT count(*) FROM hot_runs WHERE user_id = $1`, user))
		})
	}
}

// applaud makes a session of a user, and has another give kudos and comment.
func (b *bundle) applaud(t *testing.T, owner, other uuid.UUID) (comment uuid.UUID) {
	t.Helper()
	b.deps.EraseUserFunc = func(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
		_, err := engagement.EraseUserTx(ctx, tx, id)
		return err
	}
	session, comment := b.mustSession(t, owner), uuid.New()
	b.mustExec(t, `INSERT INTO session_counters (user_id, session_id, kudos, comments) VALUES ($1, $2, 1, 1)`, owner, session)
	b.mustExec(t, `INSERT INTO kudos (owner_id, session_id, user_id) VALUES ($1, $2, $3)`, owner, session, other)
	b.mustExec(t, `INSERT INTO comments (id, owner_id, session_id, author_id, body) VALUES ($1, $2, $3, $4, 'a')`, comment, owner, session, other)
	return comment
}

// TestTwoWhoKnowEachOtherDeleteThemselves: who gave kudos takes them back, which leaves a delta for the owner's counters, and
// commits while the owner's delete waits for their row.
func TestTwoWhoKnowEachOtherDeleteThemselves(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	owner, giver := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	b.applaud(t, owner, giver)
	release := b.holdDeletes(t)
	deleted := make(chan error, 2)
	go func() { deleted <- b.DeleteUser(t.Context(), giver) }()
	testenv.AwaitWaiters(t, b.db, 1) // all is erased but the user
	go func() { deleted <- b.DeleteUser(t.Context(), owner) }()
	testenv.AwaitWaiters(t, b.db, 2)
	release()
	require.NoError(t, <-deleted)
	require.NoError(t, <-deleted)
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM kudos`))
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM counter_deltas WHERE owner_id = $1`, owner))
}

// TestCommentTakenBackBesideADelete: its author takes a comment back while the owner of the session is deleted.
func TestCommentTakenBackBesideADelete(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	owner, author := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	comment, tx := b.applaud(t, owner, author), testenv.Begin(t, b.db)
	_, err := dbsqlc.New().EngagementDeleteComment(t.Context(), tx, author, comment)
	require.NoError(t, err)
	deleted := make(chan error, 1)
	go func() { deleted <- b.DeleteUser(t.Context(), owner) }()
	testenv.AwaitWaiters(t, b.db, 1)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-deleted)
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM counter_deltas WHERE owner_id = $1`, owner))
}
