package aggregate

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/activity"
)

func decodeAll(t require.TestingT, chunks []chunk) []activity.Event {
	var events []activity.Event
	for _, c := range chunks {
		var err error
		events, err = decodeChunk(events, c)
		require.NoError(t, err)
	}
	return events
}

func TestArchiveGivesBackWhatItWasGiven(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.Just(""), rapid.String())
	event := rapid.Custom(func(t *rapid.T) activity.Event {
		return activity.Event{
			ID:         uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
			TS:         rapid.Int64Range(1, 4_102_444_800_000).Draw(t, "ts"),
			Lang:       rapid.String().Draw(t, "lang"),
			Keystrokes: rapid.Int32Range(0, 1_000_000).Draw(t, "keystrokes"),
			Lines:      rapid.Int32Range(-1_000_000, 1_000_000).Draw(t, "lines"),
			Project:    text.Draw(t, "project"), File: text.Draw(t, "file"), KeyFreq: text.Draw(t, "keys"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		events := Fold(rapid.SliceOfN(event, 1, 50).Draw(t, "events"))
		chunks := encodeArchive(events)
		require.Equal(t, events, decodeAll(t, chunks))

		for i := range chunks {
			chunks[i].details = nil
		}
		for i := range events {
			events[i].StripPrivate()
		}
		require.Equal(t, events, decodeAll(t, chunks), "without details the events come back stripped")
	})
}

func TestArchiveChunksAreBounded(t *testing.T) {
	t.Parallel()
	events := make([]activity.Event, 10_000)
	for i := range events {
		events[i] = at(noon+int64(i), "go", 1)
		events[i].File = strings.Repeat("𝄞", 1023) + string(rune('a'+i%26))
		events[i].Project = strings.Repeat("p", 200)
	}
	chunks := encodeArchive(events)
	require.Equal(t, events, decodeAll(t, chunks))
	for _, c := range chunks {
		require.LessOrEqual(t, len(c.details), chunkDetailsBytes+8192)
	}
	for i := range events {
		events[i].StripPrivate()
	}
	chunks = encodeArchive(events)
	require.Len(t, chunks, (len(events)+chunkEvents-1)/chunkEvents)
	require.Nil(t, chunks[0].details, "no details, no row")
}

func FuzzDecodeChunk(f *testing.F) {
	e := at(noon, "go", 1)
	e.File = "x"
	c := encodeArchive([]activity.Event{e})[0]
	f.Add(c.events, c.details)
	f.Fuzz(func(t *testing.T, events, details []byte) {
		// Damage is an error, never a panic.
		if _, err := decodeChunk(nil, chunk{events, details}); err != nil {
			require.ErrorIs(t, err, errArchive)
		}
	})
}
