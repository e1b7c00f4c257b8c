package recap_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/testenv"
)

// A recap is of one moment, though it is read by several statements: what is committed between them is not half in it.
func TestARecapIsOfOneMoment(t *testing.T) {
	t.Parallel()
	b, ctx := setup(t), t.Context()
	ada := b.user("ada", "UTC")
	b.works(ada, "go", at(16, 8, 0), at(16, 12, 0))
	before, err := b.Own(ctx, ada, week)
	require.NoError(t, err)

	tx, err := b.pool.Begin(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(ctx)) })
	for _, sql := range []string{
		`LOCK TABLE session_seconds IN ACCESS EXCLUSIVE MODE`, // read last
		`UPDATE session_seconds SET seconds = seconds / 2`, `UPDATE totals SET seconds = seconds / 2`,
	} {
		_, err := tx.Exec(ctx, sql)
		require.NoError(t, err)
	}
	read := make(chan *recap.Recap, 1)
	go func() {
		r, _ := b.Own(ctx, ada, week)
		read <- r
	}()
	testenv.AwaitWaiters(t, b.pool, 1)
	require.NoError(t, tx.Commit(ctx))
	require.Equal(t, before, <-read)
}
