package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/languages"
)

// benchBody is n events as the VS Code extension sends them: a few files of one project, most with key counts.
func benchBody(n int, keyFreq bool) []byte {
	var b bytes.Buffer
	b.WriteString(`{"events":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"5da7c3f0-9d1e-4b6a-8f00-%012x","ts":%d,"lang":%q,"keystrokes":%d,"lines":%d,`+
			`"file":"src/components/part%d/index.ts","project":"commma-dashboard"`,
			i, testNow.UnixMilli()-int64(i)*60_000, []string{"typescript", "typescriptreact", "css"}[i/7%3], 100+i, i%9, i/3)
		if keyFreq {
			b.WriteString(`,"key_freq":{"a":12,"e":21,"i":9,"n":8,"o":14,"r":7,"s":11,"t":16,"Space":30,"Enter":4,"Backspace":9,";":3}`)
		}
		b.WriteByte('}')
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func BenchmarkDecode(b *testing.B) {
	langs := languages.New()
	for _, tt := range []struct {
		name    string
		keyFreq bool
	}{{"plain", false}, {"key_freq", true}} {
		body := benchBody(60, tt.keyFreq)
		b.Run("60_events/"+tt.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				batch, err := Decode(body, testNow, DefaultLimits(), langs)
				if err != nil || len(batch.Events) != 60 {
					b.Fatal(err)
				}
			}
		})
		// The standard library without any of the checks, to compare with.
		b.Run("60_events/"+tt.name+"_encoding_json", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var v struct {
					Events []struct {
						ID, Lang, File, Project string
						TS                      int64
						Keystrokes, Lines       int32
						KeyFreq                 map[string]int64 `json:"key_freq"`
					}
				}
				require.NoError(b, json.Unmarshal(body, &v))
			}
		})
	}
}
