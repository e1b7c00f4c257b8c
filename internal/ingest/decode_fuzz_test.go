package ingest

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/languages"
)

func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		string(benchBody(3, true)), requestOf(), requestOf(eventWith(""), eventWith(`"lang":"\ud800\u0000"`), `7`), `{"events":5}`,
		requestOf(eventWith("\"file\":\"\xff\",\"key_freq\":{\"\\\\\":1,\"x\":1e9}")), `{"events":[[[{}]]],"events":[{"id":"` + strings.Repeat("é", 99) + `"}]} `,
		requestOf(eventWith(`"ts":1e12,"lines":-1.50e1,"keystrokes":1E+2`)), `{"\u0065vents":[{}]}`, "{\"events\":[{\"id\":\"\x01\"}]}",
	} {
		f.Add([]byte(body))
	}
	langs := languages.New()
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := Decode(body, testNow, DefaultLimits(), langs)
		if err != nil {
			checkRefusal(t, body, err)
			return
		}
		_, at := flatten(body)
		require.Equal(t, -1, at, "what is not JSON must not be accepted")
		checkBatch(t, b)
	})
}

// The scanner must agree with the standard library's about what JSON is, and what it leaves must be JSON too.
func FuzzFlatten(f *testing.F) {
	deep := strings.Repeat(`[{"a":1,"b":`, mostDepth) + `{"c":"]\\"}` + strings.Repeat(`},"x",{}]`, mostDepth)
	for _, body := range []string{
		deep, deep[:len(deep)-1], deep + "]", strings.Repeat("[", mostDepth+2) + strings.Repeat("]", mostDepth+2), `[1,]`, `{"a"}`,
		` {"a" : [ true,false,null,-0.5e+3,"\u12aF\n\"\/" ] } `, `[01]`, `[-]`, `[1.]`, `[1e]`, `["\u12g4"]`, "[\"\\u\x10000\"]", "[\"\xff\"]",
		"[\"\x1f\"]", `{,}`, `[}`, `nul`, `"`, `"\`, "[\x00]", "\x00", `{"a":1 "b":2}`, `{"a":1,}`, `[1 2]`, `1`, `--1`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		flat, at := flatten(body)
		if bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) < 10_000 { // the library goes no deeper
			require.Equal(t, json.Valid(body), at < 0, "%q", body)
		}
		if at < 0 {
			require.True(t, json.Valid(flat), "%q", flat)
			require.LessOrEqual(t, len(flat), len(body))
			again, _ := flatten(flat)
			require.Equal(t, string(flat), string(again))
		}
	})
}

func checkRefusal(t *testing.T, body []byte, err error) {
	var bad *BadRequestError
	if !json.Valid(body) || strings.Count(string(body), ",") >= 500 {
		return
	}
	require.ErrorAs(t, err, &bad)
	require.NotContains(t, bad.Message, "not valid JSON", "what is JSON must be read")
}

func checkBatch(t *testing.T, b *Batch) {
	require.Len(t, b.Listed, len(b.Events))
	require.LessOrEqual(t, len(b.Events), b.Received)
	require.LessOrEqual(t, b.Received-len(b.Events), b.Duplicates)
	require.LessOrEqual(t, b.Received+b.RejectedTotal, 500)
	require.Len(t, b.Rejected, min(b.RejectedTotal, maxRejected))
	sum := 0
	for reason, n := range b.ByReason {
		require.NotEmpty(t, reason)
		sum += n
	}
	require.Equal(t, b.RejectedTotal, sum)
	for _, r := range b.Rejected {
		if r.ID != "" {
			require.Len(t, r.ID, idLength)
			require.NoError(t, uuid.Validate(r.ID))
		}
		require.NotZero(t, b.ByReason[r.Reason])
	}
	for i, e := range b.Events {
		checkEvent(t, e)
		require.Equal(t, languages.Listed(e.Lang), b.Listed[i])
	}
}

func checkEvent(t *testing.T, e activity.Event) {
	checkText(t, e.Lang, maxLang)
	require.NotEmpty(t, e.Lang)
	checkText(t, e.File, maxFile)
	checkText(t, e.Project, maxProject)
	require.True(t, 0 <= e.Keystrokes && e.Keystrokes <= 1e6)
	require.True(t, -1e6 <= e.Lines && e.Lines <= 1e6)
	require.Empty(t, windowAt(testNow, DefaultLimits()).check(e.TS))
	if e.KeyFreq == "" {
		return
	}
	var counts map[string]int64
	require.NoError(t, json.Unmarshal([]byte(e.KeyFreq), &counts))
	for label, n := range counts {
		require.Contains(t, keyIndex, label)
		require.True(t, 0 < n && n <= 1e6)
	}
	var canonical strings.Builder // encoding/json sorts the names of maps by bytes
	enc := json.NewEncoder(&canonical)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(counts))
	require.Equal(t, strings.TrimSpace(canonical.String()), e.KeyFreq)
}

func checkText(t *testing.T, s string, maxRunes int) {
	require.True(t, utf8.ValidString(s))
	require.NotContains(t, s, "\x00")
	require.LessOrEqual(t, utf8.RuneCountInString(s), maxRunes)
}

// parseInteger must agree with exact arithmetic on every number that JSON can spell.
func FuzzParseInteger(f *testing.F) {
	for _, s := range []string{"0", "-0", "12", "-1.0", "1e3", "0.5", "1.5e1", "1e19", "9223372036854775807", "-9223372036854775809",
		"999999999999999999", "1000000000000000000", "0.000e9", "120e-1", "1e-1", "0e99999999999999999999", "1e99999999999999999999", "1e-99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !json.Valid([]byte(s)) || s != strings.TrimSpace(s) || (s[0] != '-' && (s[0] < '0' || s[0] > '9')) || len(s) > 200 {
			return
		}
		if i := strings.IndexAny(s, "eE"); i >= 0 && len(strings.TrimLeft(s[i+1:], "+-0")) > 3 {
			_, _ = parseInteger([]byte(s)) // too large to compute exactly
			return
		}
		want, ok := new(big.Rat).SetString(s)
		require.True(t, ok)
		got, integral := parseInteger([]byte(s))
		require.Equal(t, want.IsInt(), integral, s)
		if !integral {
			return
		}
		switch limit := big.NewInt(1e18); {
		case want.Num().CmpAbs(limit) < 0:
			require.Equal(t, want.Num().Int64(), got, s)
		case want.Sign() > 0:
			require.Equal(t, int64(1<<63-1), got, s)
		default:
			require.Equal(t, int64(-1<<63), got, s)
		}
	})
}
