package outbox

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/leaderboard"
)

// TestBoardsAreChosenByRedisClock: what a process takes for the present decides nothing, or one whose clock is days off
// would clear the outbox without having written the boards that are read. Each kept board, that of tomorrow too, has the
// newest seconds after any process has published, also one that has never seen them.
func TestBoardsAreChosenByRedisClock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now, err := f.boards.Time(t.Context())
	require.NoError(t, err)
	id := f.user(1)
	var boards []leaderboard.Board
	for _, span := range calendar.Kept(now) {
		boards = append(boards, leaderboard.Board{Span: span}, leaderboard.Board{Span: span, Lang: "c++"})
	}
	f.change(id, 100, boards...)
	s, err := f.publisher.Cycle(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, len(boards), s.Built)
	f.change(id, 200, boards...)
	other := newProcess(f.pool, f.rdb)
	_, err = other.publisher.PublishPending(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, f.pending())
	for _, b := range boards {
		scores, whole := f.scores(b)
		require.True(t, whole)
		require.Equal(t, map[uuid.UUID]int64{id: 200}, scores, "%v", b)
	}
}

// TestWhatWasReadLongAgoIsNotDone, though there is no board that could refuse it: the spans were chosen long ago, too.
func TestWhatWasReadLongAgoIsNotDone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now, err := f.boards.Time(t.Context())
	require.NoError(t, err)
	o, err := f.boards.Publish(t.Context(), []leaderboard.Publication{{
		Board: boardOf(calendar.PeriodAllTime, ""), ReadAt: now.Add(-2 * time.Hour), Rows: []leaderboard.Row{{User: userID(1), Version: 1, Seconds: 1}},
	}})
	require.NoError(t, err)
	require.Equal(t, leaderboard.ReadTooLong, o[0].Verdict)
}
