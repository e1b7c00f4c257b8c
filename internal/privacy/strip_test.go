package privacy

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/languages"
)

func TestStrip(t *testing.T) {
	t.Parallel()
	listedEvent := activity.Event{ID: uuid.New(), TS: 1_800_000_000_123, Lang: "go", Keystrokes: 3, Lines: -2,
		Project: "secret", File: "secret/a.go", KeyFreq: `{"a":3}`}
	other := listedEvent
	other.Lang = "in-house language"
	stripped := activity.Event{ID: listedEvent.ID, TS: listedEvent.TS, Lang: "go", Keystrokes: 3, Lines: -2}
	strippedOther := stripped
	strippedOther.Lang = languages.Unknown

	tests := []struct {
		mode   activity.Mode
		listed []bool
		want   []activity.Event
	}{
		{activity.ModeFull, []bool{true, false}, []activity.Event{listedEvent, other}},
		{"", []bool{true, false}, []activity.Event{listedEvent, other}},
		{activity.ModeSummary, []bool{true, false}, []activity.Event{stripped, strippedOther}},
		{activity.ModeOff, []bool{true, false}, []activity.Event{stripped, strippedOther}},
		{activity.ModeSummary, []bool{true}, []activity.Event{stripped, strippedOther}},
	}
	for _, tt := range tests {
		events := []activity.Event{listedEvent, other}
		Strip(tt.mode, events, tt.listed)
		require.Equal(t, tt.want, events, "mode %q", tt.mode)
		Strip(tt.mode, events, tt.listed)
		require.Equal(t, tt.want, events, "mode %q, once more", tt.mode)
	}
}
