package ingest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/languages"
)

var testNow = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

const testID = "5da7c3f0-9d1e-4b6a-8f00-0123456789ab"

// eventWith is a good event as JSON with further fields, which may repeat and so replace the good ones.
func eventWith(fields string) string {
	e := fmt.Sprintf(`{"id":%q,"ts":%d,"keystrokes":1,"lines":2`, testID, testNow.UnixMilli())
	if fields != "" {
		e += "," + fields
	}
	return e + "}"
}

func requestOf(events ...string) string { return `{"events":[` + strings.Join(events, ",") + `]}` }

func mustDecode(t *testing.T, body string) *Batch {
	t.Helper()
	b, err := Decode([]byte(body), testNow, DefaultLimits(), languages.New())
	require.NoError(t, err)
	require.Len(t, b.Listed, len(b.Events))
	return b
}

// mustDecodeOne decodes a request whose only event must be accepted.
func mustDecodeOne(t *testing.T, event string) activity.Event {
	t.Helper()
	b := mustDecode(t, requestOf(event))
	require.Empty(t, b.ByReason)
	require.Len(t, b.Events, 1)
	return b.Events[0]
}

func TestDecodeWhole(t *testing.T) {
	t.Parallel()
	e := mustDecodeOne(t, eventWith(`"lang":" TypeScript ","file":"src/ü.ts","project":"p","key_freq":{"b":2,"a":1,"Z":3,"\\":4,"Other":1,"c":0}`))
	require.Equal(t, activity.Event{
		ID: uuid.MustParse(testID), TS: testNow.UnixMilli(), Lang: "typescript", Keystrokes: 1, Lines: 2,
		Project: "p", File: "src/ü.ts", KeyFreq: `{"Other":4,"\\":4,"a":1,"b":2}`,
	}, e)
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	now := testNow.UnixMilli()
	plain := mustDecodeOne(t, eventWith(""))
	change := func(f func(e *activity.Event)) activity.Event {
		e := plain
		f(&e)
		return e
	}
	tests := []struct {
		name, fields string
		want         activity.Event
	}{
		{"unknown fields, also nested", `"secret":"x","deep":[{"a":[[1,{"b":null}]]}],"user":"me"`, plain},
		{"names are case sensitive", `"LANG":"go","Ts":1`, plain},
		{"nulls", `"lang":null,"file":null,"project":null,"key_freq":null`, plain},
		{"empty texts", `"lang":"","file":"","project":"","key_freq":{}`, plain},
		{"blank language", `"lang":" \u00a0\t"`, plain},
		{"last one wins", `"ts":"x","lang":5,"keystrokes":-1,"keystrokes":7,"lang":"js","ts":1,"ts":` + fmt.Sprint(now),
			change(func(e *activity.Event) { e.Keystrokes, e.Lang = 7, "javascript" })},
		{"last null wins", `"lang":"go","file":"a","key_freq":{"a":1},"lang":null,"file":null,"key_freq":null`, plain},
		{"upper-case id", `"id":"` + strings.ToUpper(testID) + `"`, plain},
		{"id of another version", `"id":"00000000-0000-0000-0000-000000000000"`, change(func(e *activity.Event) { e.ID = uuid.Nil })},
		{"escaped name and id", `"\u0069d":"\u0035` + testID[1:] + `"`, plain},
		{"integral spellings", `"keystrokes":1e3,"lines":-20.0`, change(func(e *activity.Event) { e.Keystrokes, e.Lines = 1000, -20 })},
		{"more integral spellings", `"keystrokes":0.25e2,"lines":-0`, change(func(e *activity.Event) { e.Keystrokes, e.Lines = 25, 0 })},
		{"zero with an absurd exponent", `"keystrokes":0e99999999999999999999,"lines":100E-1`,
			change(func(e *activity.Event) { e.Keystrokes, e.Lines = 0, 10 })},
		{"largest counts", `"keystrokes":1000000,"lines":-1000000`, change(func(e *activity.Event) { e.Keystrokes, e.Lines = 1e6, -1e6 })},
		{"ends of the window", fmt.Sprintf(`"ts":%d`, testNow.Add(-720*time.Hour).UnixMilli()),
			change(func(e *activity.Event) { e.TS = testNow.Add(-720 * time.Hour).UnixMilli() })},
		{"other end", fmt.Sprintf(`"ts":%d`, testNow.Add(5*time.Minute).UnixMilli()),
			change(func(e *activity.Event) { e.TS = testNow.Add(5 * time.Minute).UnixMilli() })},
		{"windows path", `"file":"C:\\Users\\me\\a.go"`, change(func(e *activity.Event) { e.File = `C:\Users\me\a.go` })},
		{"NULs are removed", `"file":"a\u0000b\u0000","project":"\u0000","lang":"g\u0000o"`,
			change(func(e *activity.Event) { e.File, e.Lang = "ab", "go" })},
		{"lone surrogates", `"file":"a\ud800b\udc00c\ud83d\ude00"`, change(func(e *activity.Event) { e.File = "a\ufffdb\ufffdc😀" })},
		{"invalid UTF-8", "\"file\":\"a\xff\xfeb\xe2\x82\"", change(func(e *activity.Event) { e.File = "a\ufffd\ufffdb\ufffd\ufffd" })},
		{"longest texts", `"lang":"` + strings.Repeat("😀", 64) + `","file":"` + strings.Repeat("😀", 1024) + `","project":"` +
			strings.Repeat("ä", 256) + `"`, change(func(e *activity.Event) {
			e.Lang, e.File, e.Project = strings.Repeat("😀", 64), strings.Repeat("😀", 1024), strings.Repeat("ä", 256)
		})},
		{"NULs do not count", `"lang":"` + strings.Repeat(`\u0000`, 70) + `go"`, change(func(e *activity.Event) { e.Lang = "go" })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, mustDecodeOne(t, eventWith(tt.fields)))
		})
	}
}

func TestDecodeLanguages(t *testing.T) {
	t.Parallel()
	b := mustDecode(t, requestOf(eventWith(`"lang":"C"`), eventWith(`"lang":"C++"`), eventWith(`"lang":"C#"`), eventWith(`"lang":"Mine  Own"`), eventWith("")))
	var keys []string
	for _, e := range b.Events {
		keys = append(keys, e.Lang)
	}
	require.Equal(t, []string{"c", "c++", "c#", "mine own", "unknown"}, keys)
	require.Equal(t, []bool{true, true, true, false, false}, b.Listed)
}

func TestDecodeKeyFreq(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, sent, want string }{
		{"zeros are dropped", `{"a":0,"x\u0000":0}`, ""},
		{"unknown labels are summed", `{"A":1,"password":2,"ä":3,"Other":4}`, `{"Other":10}`},
		{"counts are clamped", `{"a":1000001,"b":1e400,"c":99999999999999999999}`, `{"a":1000000,"b":1000000,"c":1000000}`},
		{"sums are clamped", `{"x1":700000,"x2":700000}`, `{"Other":1000000}`},
		{"last one wins", `{"a":-1,"a":2,"new":9,"new":1}`, `{"Other":1,"a":2}`},
		{"integral spellings", `{"a":1.0,"b":2e1,"c":-0}`, `{"a":1,"b":20}`},
		{"byte order", `{"~":1,"a":1,"` + "`" + `":1,"]":1,"F10":1,"F1":1,"F2":1,"9":1,"'":1}`,
			`{"'":1,"9":1,"F1":1,"F10":1,"F2":1,"Other":1,"]":1,"` + "`" + `":1,"a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, mustDecodeOne(t, eventWith(`"key_freq":`+tt.sent)).KeyFreq)
		})
	}
	require.Len(t, keyLabels, len(keyCounts{}.known), "the 78 labels of the contract")
}

func TestDecodeRejects(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("é", n) }
	tests := []struct {
		event  string
		reason Reason
	}{
		{`null`, ReasonNotAnObject},
		{`[]`, ReasonNotAnObject},
		{`"x"`, ReasonNotAnObject},
		{`1e999999`, ReasonNotAnObject},
		{`{}`, ReasonInvalidID},
		{eventWith(`"id":null`), ReasonInvalidID},
		{eventWith(`"id":5`), ReasonInvalidID},
		{eventWith(`"id":"x"`), ReasonInvalidID},
		{eventWith(`"id":"{` + testID + `}"`), ReasonInvalidID},
		{eventWith(`"id":"` + strings.ReplaceAll(testID, "-", "") + `"`), ReasonInvalidID},
		{eventWith(`"id":"urn:uuid:` + testID + `"`), ReasonInvalidID},
		{eventWith(`"id":"` + strings.ReplaceAll(testID, "-", "_") + `"`), ReasonInvalidID},
		{eventWith(`"ts":null`), ReasonInvalidTS},
		{eventWith(`"ts":"1781524800000"`), ReasonInvalidTS},
		{eventWith(`"ts":0`), ReasonInvalidTS},
		{eventWith(`"ts":-5`), ReasonInvalidTS},
		{eventWith(`"ts":1781524800000.5`), ReasonInvalidTS},
		{eventWith(`"ts":4102444800001`), ReasonInvalidTS},
		{eventWith(`"ts":18446744073709551617`), ReasonInvalidTS}, // 2^64 + 1 must not wrap to 1
		{eventWith(`"ts":1e99999999999999999999`), ReasonInvalidTS},
		{eventWith(`"ts":true`), ReasonInvalidTS},
		{eventWith(`"ts":1`), ReasonTooOld},
		{eventWith(fmt.Sprintf(`"ts":%d`, testNow.Add(-720*time.Hour).UnixMilli()-1)), ReasonTooOld},
		{eventWith(fmt.Sprintf(`"ts":%d`, testNow.Add(5*time.Minute).UnixMilli()+1)), ReasonInFuture},
		{eventWith(`"ts":4102444800000`), ReasonInFuture},
		{eventWith(`"keystrokes":null`), ReasonInvalidKeystrokes},
		{eventWith(`"keystrokes":-1`), ReasonInvalidKeystrokes},
		{eventWith(`"keystrokes":1000001`), ReasonInvalidKeystrokes},
		{eventWith(`"keystrokes":4294967297`), ReasonInvalidKeystrokes},
		{eventWith(`"keystrokes":1.5`), ReasonInvalidKeystrokes},
		{eventWith(`"keystrokes":1e-1`), ReasonInvalidKeystrokes},
		{eventWith(`"keystrokes":"1"`), ReasonInvalidKeystrokes},
		{eventWith(`"lines":null`), ReasonInvalidLines},
		{eventWith(`"lines":1000001`), ReasonInvalidLines},
		{eventWith(`"lines":-1000001`), ReasonInvalidLines},
		{eventWith(`"lines":-99999999999999999999`), ReasonInvalidLines},
		{eventWith(`"lines":[1]`), ReasonInvalidLines},
		{eventWith(`"lang":5`), ReasonInvalidLang},
		{eventWith(`"lang":["go"]`), ReasonInvalidLang},
		{eventWith(`"lang":"` + long(65) + `"`), ReasonLangTooLong},
		{eventWith(`"file":{}`), ReasonInvalidFile},
		{eventWith(`"file":"` + long(1025) + `"`), ReasonFileTooLong},
		{eventWith("\"file\":\"" + strings.Repeat("\xff", 1025) + "\""), ReasonFileTooLong},
		{eventWith(`"project":false`), ReasonInvalidProject},
		{eventWith(`"project":"` + long(257) + `"`), ReasonProjectTooLong},
		{eventWith(`"key_freq":[]`), ReasonInvalidKeyFreq},
		{eventWith(`"key_freq":"a"`), ReasonInvalidKeyFreq},
		{eventWith(`"key_freq":{"a":-1}`), ReasonInvalidKeyFreq},
		{eventWith(`"key_freq":{"a":1.5}`), ReasonInvalidKeyFreq},
		{eventWith(`"key_freq":{"a":null}`), ReasonInvalidKeyFreq},
		{eventWith(`"key_freq":{"secret":{}}`), ReasonInvalidKeyFreq},
		{eventWith(`"key_freq":{"Other":-1,"secret":1}`), ReasonInvalidKeyFreq},
		{eventWith(`"id":"x","ts":1,"lang":5`), ReasonInvalidID},
		{eventWith(`"ts":1,"lang":5`), ReasonInvalidLang},
	}
	for _, tt := range tests {
		t.Run(string(tt.reason), func(t *testing.T) {
			t.Parallel()
			b := mustDecode(t, requestOf(eventWith(`"keystrokes":5`), tt.event, eventWith(`"keystrokes":6`)))
			require.Len(t, b.Events, 2, "the neighbours are kept")
			require.Equal(t, 2, b.Received)
			require.Equal(t, 1, b.RejectedTotal)
			require.Equal(t, map[Reason]int{tt.reason: 1}, b.ByReason, tt.event)
			require.Equal(t, 1, b.Rejected[0].Index)
			require.Equal(t, tt.reason, b.Rejected[0].Reason)
		})
	}
}

func TestDecodeRejectedID(t *testing.T) {
	t.Parallel()
	tests := []struct{ sent, want string }{
		{`"` + strings.ToUpper(testID) + `"`, strings.ToUpper(testID)},
		{`null`, ""},
		{`{"a":1}`, ""},
		{`"` + strings.Repeat("<", 36) + `"`, ""},
		{`"` + testID + `0"`, ""},
		{`"{` + testID + `}"`, ""},
		{`"` + testID + `","id":7`, ""},
		{`7,"id":"` + testID + `"`, testID},
	}
	for _, tt := range tests {
		b := mustDecode(t, requestOf(eventWith(`"lines":"x","id":`+tt.sent)))
		require.Equal(t, tt.want, b.Rejected[0].ID)
	}
}

func TestDecodeListsAtMost50Rejections(t *testing.T) {
	t.Parallel()
	events := make([]string, 120)
	for i := range events {
		events[i] = `{"id":"x"}`
	}
	b := mustDecode(t, requestOf(append(events, eventWith(""))...))
	require.Len(t, b.Rejected, 50)
	require.Equal(t, 49, b.Rejected[49].Index)
	require.Equal(t, 120, b.RejectedTotal)
	require.Equal(t, map[Reason]int{ReasonInvalidID: 120}, b.ByReason)
	require.Len(t, b.Events, 1)
}

func TestDecodeDuplicates(t *testing.T) {
	t.Parallel()
	b := mustDecode(t, requestOf(
		eventWith(`"lang":"js"`),
		eventWith(`"lang":"JavaScript"`),                                     // exact: the same once resolved
		eventWith(`"lang":"go"`),                                             // differs: kept
		eventWith(`"lang":"js","id":"`+strings.ToUpper(testID)+`"`),          // exact, with the first
		eventWith(`"lang":"go"`),                                             // exact, with the third
		eventWith(`"lang":"js","ts":1781524799000`),                          // another time: no repeat
		eventWith(`"lang":"js","id":"00000000-0000-0000-0000-000000000001"`), // another id: no repeat
	))
	require.Equal(t, 7, b.Received)
	require.Equal(t, 4, b.Duplicates)
	require.Len(t, b.Events, 4)
	require.Equal(t, "javascript", b.Events[0].Lang)
	require.Equal(t, "go", b.Events[1].Lang)
}

func TestDecodeBadRequests(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 200_000)
	tests := []struct{ name, body, message string }{
		{"nothing", ``, "ends too early, at byte 0"},
		{"blanks", " \n", "ends too early"},
		{"array", `[` + eventWith("") + `]`, "not a JSON object"},
		{"number", `5`, "not a JSON object"},
		{"null", `null`, "not a JSON object"},
		{"no events", `{"a":1}`, "no array of events"},
		{"events of another type", `{"events":{}}`, "no array of events"},
		{"events are null", `{"events":null}`, "no array of events"},
		{"last events are null", `{"events":[` + eventWith("") + `],"events":null}`, "no array of events"},
		{"empty events", `{"events":[]}`, "send 1 to 500"},
		{"garbage", `secret`, "error at byte 1"},
		{"cut short", `{"events":[` + eventWith("")[:40], "ends too early"},
		{"cut in a string", `{"events":[{"id":"secret`, "ends too early"},
		{"missing comma", `{"events":[{}{}]}`, "error at byte 14"},
		{"trailing comma", `{"events":[{},]}`, "error at byte 15"},
		{"trailing data", requestOf(eventWith("")) + `secret`, "error at byte"},
		{"trailing object", requestOf(eventWith("")) + ` {}`, "error at byte"},
		{"raw NUL", requestOf(eventWith("\"lang\":\"\x00\"")), "error at byte"},
		{"raw newline", requestOf(eventWith("\"lang\":\"\n\"")), "error at byte"},
		{"bad escape", requestOf(eventWith(`"lang":"\x"`)), "error at byte"},
		{"bad number", requestOf(eventWith(`"lines":01`)), "error at byte"},
		{"bare word", requestOf(eventWith(`"lines":NaN`)), "error at byte"},
		{"deep and cut short", `{"a":` + deep, "ends too early"},
		{"deep and one bracket short", requestOf(eventWith(`"a":` + deep + strings.Repeat("]", 199_999))), "error at byte"},
		{"deep and closed otherwise", `{"a":` + deep + strings.Repeat("}", 200_000) + "}", "error at byte 200006"},
		{"deep in a field, then broken", requestOf(eventWith(`"key_freq":{"a":` + deep)), "error at byte"},
		{"wrong deep inside", `{"a":` + deep + `"\x"` + strings.Repeat("]", 200_000) + "}", "error at byte 200008"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode([]byte(tt.body), testNow, DefaultLimits(), languages.New())
			var bad *BadRequestError
			require.ErrorAs(t, err, &bad)
			require.Contains(t, bad.Message, tt.message)
			require.NotContains(t, bad.Message, "secret")
			require.Less(t, len(bad.Message), 120)
		})
	}
}

func TestDecodeDeepNestingIsIgnored(t *testing.T) {
	t.Parallel()
	for _, levels := range []int{mostDepth, 9_000, 100_000} {
		arrays := strings.Repeat(`[`, levels) + `"]\"{"` + strings.Repeat(`]`, levels)
		objects := strings.Repeat(`{"a":1,"b":[],"":`, levels/10) + `{}` + strings.Repeat(`}`, levels/10)
		for _, deep := range []string{arrays, objects} {
			mustDecodeOne(t, eventWith(`"a":`+deep))
			b := mustDecode(t, `{"x":`+deep+`,"events":[`+strings.Join([]string{
				eventWith(`"lang":` + deep), eventWith(`"key_freq":{"a":` + deep + `}`), eventWith(`"lang":"go"`), deep,
			}, ",")+`]}`)
			require.Equal(t, 3, b.RejectedTotal)
			require.Equal(t, 1, b.ByReason[ReasonInvalidLang])
			require.Equal(t, 1, b.ByReason[ReasonInvalidKeyFreq])
			require.Equal(t, "go", b.Events[0].Lang)
		}
	}
}

func TestDecodeCountsEvents(t *testing.T) {
	t.Parallel()
	events := make([]string, 501)
	for i := range events {
		events[i] = eventWith(fmt.Sprintf(`"lines":%d`, i))
	}
	require.Len(t, mustDecode(t, requestOf(events[:500]...)).Events, 500)
	// What follows the 500th is not read, so that it may be broken.
	_, err := Decode([]byte(`{"events":[`+strings.Join(events, ",")+`,!`), testNow, DefaultLimits(), languages.New())
	require.ErrorIs(t, err, ErrTooManyEvents)
	// Refused events count: the client must not be able to send any number of them.
	_, err = Decode([]byte(requestOf(strings.Split(strings.Repeat("0,", 500)+"0", ",")...)), testNow, DefaultLimits(), languages.New())
	require.ErrorIs(t, err, ErrTooManyEvents)
}

func TestDecodeSecondEventsReplaceTheFirst(t *testing.T) {
	t.Parallel()
	b := mustDecode(t, `{"events":[`+eventWith("")+`,5],"x":[],"events":[`+eventWith(`"lines":9`)+`]}`)
	require.Len(t, b.Events, 1)
	require.Equal(t, int32(9), b.Events[0].Lines)
	require.Equal(t, 1, b.Received)
	require.Zero(t, b.Duplicates)
	require.Zero(t, b.RejectedTotal)
}

// A batch must outlive the body that it was read from: the body's memory is used again.
func TestBatchDoesNotPointIntoTheBody(t *testing.T) {
	t.Parallel()
	body := []byte(requestOf(eventWith(`"lang":"Own Lang","file":"a/b.go","project":"p","key_freq":{"a":1}`), eventWith(`"lines":"x","id":"`+strings.ToUpper(testID)+`"`)))
	b, err := Decode(body, testNow, DefaultLimits(), languages.New())
	require.NoError(t, err)
	for i := range body {
		body[i] = 'X'
	}
	require.Equal(t, activity.Event{
		ID: uuid.MustParse(testID), TS: testNow.UnixMilli(), Lang: "own lang", Keystrokes: 1, Lines: 2,
		Project: "p", File: "a/b.go", KeyFreq: `{"a":1}`,
	}, b.Events[0])
	require.Equal(t, strings.ToUpper(testID), b.Rejected[0].ID)
}

func TestDecodeLimits(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	l.MaxEvents, l.MaxAge = 2, 100_000*time.Hour
	old := eventWith(`"ts":1588105194000`)
	b, err := Decode([]byte(requestOf(old)), testNow, l, languages.FoldOnly())
	require.NoError(t, err)
	require.Len(t, b.Events, 1)
	_, err = Decode([]byte(requestOf(old, old, old)), testNow, l, languages.FoldOnly())
	require.ErrorIs(t, err, ErrTooManyEvents)
}
