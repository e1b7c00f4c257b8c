package model

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// realDataDir names a folder of recorded activity (NAME.jsonl) with what another program made of it
// (NAME.expected.json). The data is people's, so it does not lie in the repository.
const realDataDir = "COMMMA_REALDATA_DIR"

// answers is what the other program says, in seconds since the epoch and local days.
type answers struct {
	Zones map[string]string
	Users map[string]struct {
		Sessions      [][]any
		Days          map[string]map[string]int64
		Weeks, Months map[string]int64
		Total         int64
		StreakLongest int64 `json:"streak_longest"`
		Events        int
	}
	AllTime [][]any
}

func TestRealActivity(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(realDataDir)
	if dir == "" {
		t.Skipf("%s is not set: it names a folder of recorded activity, which is not part of the repository", realDataDir)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.expected.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(file, ".expected.json")
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			var want answers
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &want))
			users := readUsers(t, name+".jsonl", want.Zones)
			for id, u := range users {
				checkAnswers(t, id, u, want)
			}
			board := Board(users, Total{AllTime, 0, ""})
			require.Len(t, board, len(want.AllTime))
			for _, place := range want.AllTime {
				require.EqualValues(t, place[1], board[place[0].(string)])
			}
		})
	}
}

func readUsers(t *testing.T, file string, zones map[string]string) map[string]*User {
	t.Helper()
	users := map[string]*User{}
	for id, zone := range zones {
		users[id] = NewUser(zone)
	}
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e struct {
			User, ID, Lang    string
			TS                int64
			Keystrokes, Lines int64
			File, Project     *string
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		lang := strings.ToLower(strings.Join(strings.Fields(e.Lang), " "))
		if lang == "" {
			lang = Unknown
		}
		users[e.User].Upload(Event{ID: e.ID, MS: e.TS, Lang: lang, Keystrokes: e.Keystrokes, Lines: e.Lines, Project: e.Project, File: e.File})
	}
	require.NoError(t, lines.Err())
	return users
}

func checkAnswers(t *testing.T, id string, u *User, all answers) {
	t.Helper()
	want := all.Users[id]
	sessions := u.Sessions()
	var got [][]any
	for _, s := range sessions {
		langs := map[string]any{}
		for at, n := range s.Seconds {
			before, _ := langs[at.Lang].(float64)
			langs[at.Lang] = before + float64(n)
		}
		got = append(got, []any{float64(s.Start), float64(s.End), float64(s.End - s.Start), langs})
	}
	require.Equal(t, want.Sessions, got, id)
	days, weeks, months := map[string]map[string]int64{}, map[string]int64{}, map[string]int64{}
	for at, n := range Totals(sessions) {
		start := at.StartsOn.String()
		switch {
		case at.Period == PerDay && at.Lang != "":
			if days[start] == nil {
				days[start] = map[string]int64{}
			}
			days[start][at.Lang] = n
		case at.Period == PerWeek && at.Lang == "":
			weeks[start] = n
		case at.Period == PerMonth && at.Lang == "":
			months[start] = n
		case at.Period == AllTime && at.Lang == "":
			require.Equal(t, want.Total, n, id)
		}
	}
	require.Equal(t, want.Days, days, id)
	require.Equal(t, want.Weeks, weeks, id)
	require.Equal(t, want.Months, months, id)
	require.Equal(t, want.StreakLongest, StreakOf(sessions).Longest(), id)
	require.Len(t, u.events, want.Events, id)
}
