package sessions

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 6, 15, 9, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		keystrokes int64
		seconds    int
		want       int64
	}{
		"whole":            {keystrokes: 120, seconds: 60, want: 120},
		"half rounds up":   {keystrokes: 1, seconds: 120, want: 1},
		"less than a half": {keystrokes: 1, seconds: 121, want: 0},
		"nothing typed":    {keystrokes: 0, seconds: 60, want: 0},
		"past 2^31":        {keystrokes: 1 << 40, seconds: 60, want: 1 << 40},
		"no length":        {keystrokes: 2, seconds: 0, want: 120},
	} {
		s := Session{StartedAt: start, EndedAt: start.Add(time.Duration(tc.seconds) * time.Second), Keystrokes: tc.keystrokes}
		require.Equal(t, tc.want, s.Pace(), name)
	}
}

// The form is that of the published service, whose web client keeps cursors.
func TestCursorForm(t *testing.T) {
	t.Parallel()
	c := Cursor{
		StartedAt: time.Date(2026, 6, 15, 8, 42, 0, 0, time.FixedZone("", 0)),
		ID:        uuid.MustParse("8f14e45f-ceea-467f-a9b1-0d3a5f0f8c11"),
	}
	raw, err := base64.RawURLEncoding.DecodeString(c.String())
	require.NoError(t, err)
	require.Equal(t, "2026-06-15T08:42:00.000Z|8f14e45f-ceea-467f-a9b1-0d3a5f0f8c11", string(raw))

	back, err := ParseCursor(c.String() + "==") // padded by a client that means well
	require.NoError(t, err)
	require.True(t, c.StartedAt.Equal(back.StartedAt))
	require.Equal(t, c.ID, back.ID)
}

func TestParseCursorRefuses(t *testing.T) {
	t.Parallel()
	const at, id = "2026-06-15T08:42:00.000Z", "8f14e45f-ceea-467f-a9b1-0d3a5f0f8c11"
	for name, plain := range map[string]string{
		"empty":          "",
		"no separator":   at + id,
		"bad date":       "yesterday|" + id,
		"no date":        "|" + id,
		"id is none":     at + "|42",
		"id with braces": at + "|{" + id + "}",
		"more after id":  at + "|" + id + "|x",
		"NUL":            at + "|" + strings.Repeat("\x00", 36),
	} {
		_, err := ParseCursor(base64.RawURLEncoding.EncodeToString([]byte(plain)))
		require.ErrorIs(t, err, ErrBadCursor, name)
	}
	_, err := ParseCursor("not base64url!")
	require.ErrorIs(t, err, ErrBadCursor)
}

func FuzzParseCursor(f *testing.F) {
	f.Add("MjAyNi0wNi0xNVQwODo0MjowMC4wMDBafDhmMTRlNDVmLWNlZWEtNDY3Zi1hOWIxLTBkM2E1ZjBmOGMxMQ")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCursor(s)
		if err != nil {
			require.ErrorIs(t, err, ErrBadCursor)
			return
		}
		again, err := ParseCursor(c.String())
		require.NoError(t, err)
		require.Equal(t, c.String(), again.String())
	})
}

func TestParseID(t *testing.T) {
	t.Parallel()
	const id = "8f14e45f-ceea-467f-a9b1-0d3a5f0f8c11"
	got, err := ParseID(strings.ToUpper(id))
	require.NoError(t, err)
	require.Equal(t, id, got.String())
	for _, s := range []string{"", "1", "featured", "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), id[:35] + "x"} {
		_, err := ParseID(s)
		require.ErrorIs(t, err, ErrNotFound, s)
	}
}

func TestOrderLangs(t *testing.T) {
	t.Parallel()
	require.Equal(t,
		[]LangSeconds{{"c", 20}, {"c++", 20}, {"go", 10}},
		orderLangs(map[string]int64{"go": 10, "c++": 20, "c": 20}))
}
