package engagement_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/writebehind"
)

// run runs a loop until the returned function is called, which waits for its end.
func run(t *testing.T, r interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// hangingURL is of a server that takes connections and never answers.
func hangingURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return "redis://" + l.Addr().String()
}

// What a single cycle flushes is all that there is: what is not due yet, and what another process has taken.
func TestFlushAllWaitsForNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, ada := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	list := b.mustSessions(t, owner, 2)
	flush := func() {
		t.Helper()
		shares, _ := b.counters(t, writebehind.DebounceConfig{}) // of another process
		require.NoError(t, shares.FlushAll(t.Context()))
		require.NoError(t, b.flusher.FlushAll(t.Context()))
	}
	flush()
	taken := fmt.Sprintf("%s %d 2", uuid.New(), clock.System{}.Now().UnixMilli())
	require.NoError(t, b.rdb.HSet(t.Context(), "{wb:shares:0}:processing", list[0].String(), taken).Err())
	require.NoError(t, b.shares.Add(t.Context(), list[1], 3))
	b.mustKudos(t, ada, list[0], true)
	b.mustComment(t, ada, list[1], "x")
	flush()
	require.Equal(t, counts{Shares: 2, Kudos: 1}, b.counts(t, list[0]))
	require.Equal(t, counts{Shares: 3, Comments: 1}, b.counts(t, list[1]))
	require.Zero(t, b.mustCount(t, `SELECT count(*) FROM counter_deltas`))
	require.Zero(t, b.rdb.Exists(t.Context(), "{wb:shares:0}:deltas", "{wb:shares:0}:due", "{wb:shares:0}:processing").Val())
}
