package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoadNamesTheBadLine(t *testing.T) {
	t.Parallel()
	good := jsonl(1, testNow, "u")
	for name, tt := range map[string]struct{ text, want string }{
		"no JSON":        {good + "\n{", "line 3: "},
		"other type":     {good + `{"user":"u","id":"x","ts":"soon"}`, "line 2: "},
		"no user":        {`{"id":"x","ts":1}`, "line 1: user is missing"},
		"no id":          {`{"user":"u","ts":1}`, "line 1: id is missing"},
		"no time":        {`{"user":"u","id":"x"}`, "line 1: ts is missing"},
		"negative time":  {`{"user":"u","id":"x","ts":-1}`, "line 1: ts is missing or not positive"},
		"array":          {"[]", "line 1: "},
		"two on a line":  {strings.TrimSpace(good) + good, "line 1: "},
		"endless line":   {good + strings.Repeat("x", maxLine+1), "line 2: longer than"},
		"no events":      {"\n \n", "the file has none"},
		"an empty file":  {"", "the file has none"},
		"null":           {"null", "line 1: user is missing"},
		"broken newline": {strings.Replace(good, ",", ",\n", 1), "line 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(strings.NewReader(tt.text), int64(len(tt.text)))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestLoadSkipsBlankLines(t *testing.T) {
	t.Parallel()
	text := "\n" + strings.ReplaceAll(jsonl(3, testNow, "a", "b"), "\n", "\r\n  \n")
	f := mustLoad(t, strings.TrimSpace(text))
	require.Equal(t, 6, f.Events())
	require.Equal(t, testNow.UnixMilli(), f.last)
	require.Equal(t, testNow.Add(-2*time.Minute).UnixMilli(), f.first)
	body, err := f.body(f.users[1].events, 1000)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(body), `"keystrokes"`))
	require.Contains(t, string(body), fmt.Sprint(testNow.UnixMilli()+1000))
	require.NotContains(t, string(body), "user")
}

func TestFileThatChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	text := jsonl(3, testNow, "u")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	src, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = src.Close() })
	f, err := Load(src, int64(len(text)))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("short"), 0o600))
	_, _, cfg := setup(t, nil)
	_, err = Run(t.Context(), f, cfg)
	require.ErrorContains(t, err, "the file has changed")
	require.Nil(t, Terminal(src))
}

func TestParseTokens(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		` {"u1":"secret1","u2":"secret2"}`, "u1 secret1\n# u2 other\n\n  u2\t secret2",
	} {
		tokens, err := ParseTokens(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, "secret1", tokens.of("u1"))
		require.Equal(t, "secret2", tokens.of("u2"))
		require.Empty(t, tokens.of("u3"))
	}
	require.Equal(t, "t", OneToken("t").of("anyone"))
	for _, text := range []string{`{"u1":"secret"`, `{"u1":["secret"]}`, "u1 secret\nu2", "u1 the secret"} {
		_, err := ParseTokens(strings.NewReader(text))
		require.ErrorContains(t, err, "read tokens")
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestParseShift(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Shift{"": {}, "0": {}, "auto": ShiftAuto, "12": ShiftBy(12)} {
		got, err := ParseShift(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"-1", "Auto", "1.5", "99999999999999999999", "5301"} {
		_, err := ParseShift(text)
		require.Error(t, err)
	}
}

func TestShiftAuto(t *testing.T) {
	t.Parallel()
	const maxAge, day = 720 * time.Hour, 24 * time.Hour
	tests := []struct {
		name        string
		first, last time.Duration // before now
		weeks       int
		err         string
	}{
		{"recent", 2 * day, day, 0, ""},
		{"exactly a week", week, week, 1, ""},
		{"just under a week", week - time.Millisecond, week - time.Millisecond, 0, ""},
		{"years", 500*week + 3*day, 500 * week, 500, ""},
		{"longest that always fits", 50*week + 6*day + 23*day, 50*week + 6*day, 50, ""},
		{"four weeks on a good day", 50*week + 2*day + 28*day, 50*week + 2*day, 50, ""},
		{"four weeks on a bad day", 50*week + 3*day + 28*day, 50*week + 3*day, 0, "they span 28.0 days, and moved by 50 whole weeks the oldest is 31.0 days old"},
		{"over four weeks", 50*week + 28*day + time.Millisecond, 50 * week, 0, "at most 4 weeks"},
		{"the future stays", day, -day, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ms := func(before time.Duration) int64 { return testNow.Add(-before).UnixMilli() }
			weeks, err := ShiftAuto.weeksFor(ms(tt.first), ms(tt.last), testNow, maxAge)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.weeks, weeks)
			require.LessOrEqual(t, ms(tt.last)+int64(weeks)*week.Milliseconds(), max(testNow.UnixMilli(), ms(tt.last)))
		})
	}
}
