package privacy

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
)

// The whole table: kind by kind, what the owner, another user and nobody see of a user on full, summary and off.
func TestSee(t *testing.T) {
	t.Parallel()
	const h, s, p = Hidden, WithoutPaths, WithPaths
	modes := []activity.Mode{activity.ModeFull, activity.ModeSummary, activity.ModeOff}
	for kind, want := range map[Kind]map[Viewer][3]Access{
		Detail:  {Owner: {p, p, p}, Other: {p, s, h}, Anonymous: {p, s, h}},
		List:    {Owner: {s, s, s}, Other: {s, s, h}, Anonymous: {s, s, h}},
		Profile: {Owner: {s, s, s}, Other: {s, s, h}, Anonymous: {s, s, h}},
		Heatmap: {Owner: {s, s, s}, Other: {s, s, h}, Anonymous: {s, s, h}},
		Recap:   {Owner: {s, s, s}, Other: {h, h, h}, Anonymous: {h, h, h}},
		Board:   {Owner: {s, s, h}, Other: {s, s, h}, Anonymous: {s, s, h}},
		Feed:    {Owner: {s, s, s}, Other: {s, s, h}, Anonymous: {s, s, h}},
	} {
		for viewer, row := range want {
			for i, mode := range modes {
				require.Equal(t, row[i], See(viewer, mode, kind), "kind %d, viewer %d, %s", kind, viewer, mode)
			}
		}
	}
}

func TestSeeHidesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, viewer := range []Viewer{Anonymous, Other, Owner, -1, 7} {
		require.Equal(t, Hidden, See(viewer, activity.ModeFull, 0))
		require.Equal(t, Hidden, See(viewer, activity.ModeFull, Feed+1), "a new kind has to be decided on")
		if viewer != Owner {
			for _, mode := range []activity.Mode{"", "FULL", "public"} {
				require.Equal(t, Hidden, See(viewer, mode, Detail), "%q", mode)
			}
		}
	}
	require.Zero(t, Hidden)
}

func TestViewerOf(t *testing.T) {
	t.Parallel()
	ada, bob := uuid.New(), uuid.New()
	require.Equal(t, Owner, ViewerOf(ada, ada))
	require.Equal(t, Other, ViewerOf(bob, ada))
	require.Equal(t, Anonymous, ViewerOf(uuid.Nil, ada))
	require.Equal(t, Anonymous, ViewerOf(uuid.Nil, uuid.Nil), "nobody owns nothing")
}
