package privacy

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
)

func TestVisibleTo(t *testing.T) {
	t.Parallel()
	owner, other := uuid.New(), uuid.New()
	for _, mode := range []activity.Mode{activity.ModeFull, activity.ModeSummary, activity.ModeOff, ""} {
		require.Equal(t, Visible{Page: true, Details: true}, VisibleTo(owner, owner, mode))
		want := Visible{Page: mode == activity.ModeFull || mode == activity.ModeSummary}
		require.Equal(t, want, VisibleTo(other, owner, mode))
		require.Equal(t, want, VisibleTo(uuid.Nil, owner, mode))
	}
}
