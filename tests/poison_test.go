package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
)

// Whatever ingest accepts can be finalized, published and read.
func TestNothingPoisons(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	base, _ := s.serve("--no-aggregate")
	user := s.createUser("poison", "America/St_Johns")
	at := clock.System{}.Now().Add(-2 * time.Hour).UnixMilli()
	event := func(i int, rest string) string {
		return fmt.Sprintf(`{"id":"%s","ts":%d,"keystrokes":1000000,"lines":-1000000,%s}`, uuid.NewString(), at+int64(i)*1000, rest)
	}
	big := strings.Repeat("𝄞", 1024)
	events := []string{
		event(0, `"lang":"C++","file":"`+big+`","project":"`+strings.Repeat("𝄞", 256)+`"`),
		event(1, `"lang":"C","file":"a\u0000b"`),
		event(2, `"lang":"C#","file":"\ud800 lone","project":"\udfff"`),
		event(3, `"lang":"`+strings.Repeat("𝄞", 64)+`","file":"C:\\Users\\x\\main.c"`),
		event(4, `"lang":"\u0000","key_freq":{"a":1e300,"\ud83d":5,"Enter":1000000}`),
		event(5, `"lang":"{}:%25","unknown":{"deep":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`}`),
		event(6, "\"lang\":\"caf\xff\",\"file\":\"\xc3\x28\""),
		event(7, `"lang":null,"file":null,"project":null,"key_freq":null`),
	}
	status, answer := call(t, "POST", base+"/v1/ingest", user.Token, `{"events":[`+strings.Join(events, ",")+`]}`)
	require.Equal(t, 202, status, answer)
	var got struct{ Received, Duplicate int }
	require.NoError(t, json.Unmarshal([]byte(answer), &got))
	require.Equal(t, len(events), got.Received, answer)

	stats := s.workerOnce()
	require.Equal(t, 1, stats.Aggregate.Finalized)
	require.Zero(t, stats.Aggregate.Failed)
	require.Zero(t, stats.Publish.Left)

	status, answer = call(t, "GET", base+"/v1/sessions", user.Token, "")
	require.Equal(t, 200, status)
	var list struct {
		Sessions []struct {
			ID         string
			Duration   int64 `json:"duration_s"`
			LinesDelta int64 `json:"lines_delta"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &list))
	require.Len(t, list.Sessions, 1)
	require.Equal(t, int64(67), list.Sessions[0].Duration)
	require.Equal(t, int64(-8_000_000), list.Sessions[0].LinesDelta)

	status, answer = call(t, "GET", base+"/v1/sessions/"+list.Sessions[0].ID, user.Token, "")
	require.Equal(t, 200, status, answer)
	require.Contains(t, answer, big, "the long path is read back whole")
	require.Contains(t, answer, `"ab"`, "NULs are removed")

	for lang, seconds := range map[string]int64{"c%2B%2B": 60, "C": 1, "C%23": 1} {
		status, answer = call(t, "GET", base+"/v1/leaderboard?period=alltime&lang="+lang, "", "")
		require.Equal(t, 200, status, answer)
		require.Contains(t, answer, fmt.Sprintf(`"duration_s":%d,`, seconds), "board of %s: %s", lang, answer)
	}
}
