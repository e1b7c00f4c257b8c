package ingest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
)

func waiting(ctx context.Context, user uuid.UUID, events int) *request {
	return &request{ctx: ctx, userID: user, batch: &Batch{Events: make([]activity.Event, events)}, done: make(chan outcome, 1)}
}

func TestUsersTakeTurns(t *testing.T) {
	t.Parallel()
	q := newQueue(1_000_000, 1000)
	flood, other := uuid.New(), uuid.New()
	for range 200 {
		require.True(t, q.push(waiting(t.Context(), flood, 500)))
	}
	late := waiting(t.Context(), other, 1)
	require.True(t, q.push(late))

	group := q.pop(256, 8000)
	require.Len(t, group, 2, "one request of each user, however much one of them sent")
	require.Same(t, late, group[1])
	require.Len(t, q.pop(256, 8000), 1)
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	q := newQueue(1_000_000, 1)
	for range 10 {
		require.True(t, q.push(waiting(t.Context(), uuid.New(), 400)))
	}
	require.Len(t, q.pop(3, 8000), 3, "by users")
	require.Len(t, q.pop(256, 1000), 2, "by size")
	require.Len(t, q.pop(256, 100), 1, "a request larger than a group is a group of its own")
	require.Len(t, q.pop(256, 8000), 4)
	require.Empty(t, q.pop(256, 8000))
}

func TestQueueHasNoRoomWithoutEnd(t *testing.T) {
	t.Parallel()
	q := newQueue(1003, 2)
	user := uuid.New()
	require.True(t, q.push(waiting(t.Context(), user, 300)))
	require.True(t, q.push(waiting(t.Context(), user, 300)))
	require.False(t, q.push(waiting(t.Context(), user, 1)), "one user's share is used up")
	require.True(t, q.push(waiting(t.Context(), uuid.New(), 400)))
	require.False(t, q.push(waiting(t.Context(), uuid.New(), 1)), "all room is used up")
	q.pop(256, 8000)
	q.pop(256, 8000)
	require.True(t, q.push(waiting(t.Context(), user, 2000)), "an empty queue has room for anything")
}

func TestRequestsNobodyWaitsForAreDropped(t *testing.T) {
	t.Parallel()
	q := newQueue(1002, 10)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, q.push(waiting(gone, uuid.New(), 900)))
	alive := waiting(t.Context(), uuid.New(), 100)
	require.True(t, q.push(alive))
	require.Equal(t, []*request{alive}, q.pop(256, 8000))
	require.True(t, q.push(waiting(t.Context(), uuid.New(), 1000)), "what was dropped gives its room back")
}

func TestRunsOf(t *testing.T) {
	t.Parallel()
	at := func(second int64) activity.Event { return activity.Event{TS: second*1000 + 999} }
	require.Empty(t, runsOf(nil))
	require.Equal(t, []run{{10, 910}, {1811, 1811}}, runsOf([]activity.Event{at(1811), at(10), at(910), at(10)}))
}

func TestParkedUserHasNoTurn(t *testing.T) {
	t.Parallel()
	q := newQueue(1_000_000, 3)
	user := uuid.New()
	for range 2 {
		require.True(t, q.push(waiting(t.Context(), user, 10)))
	}
	first, second := q.pop(256, 8000)[0], q.pop(256, 8000)[0]
	require.True(t, q.push(waiting(t.Context(), user, 10)))
	// Two groups met the lock at once.
	q.park(second, time.Millisecond)
	q.park(first, time.Hour)
	require.False(t, q.push(waiting(t.Context(), user, 10)), "what is parked counts")
	other := waiting(t.Context(), uuid.New(), 1)
	require.True(t, q.push(other))
	require.Eventually(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.turns) == 2
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, []*request{other, first}, q.pop(256, 8000), "first come, first served, each user once")
	require.Equal(t, []*request{second}, q.pop(256, 8000))
	require.Len(t, q.pop(256, 8000), 1)
	require.True(t, q.drained())
}
