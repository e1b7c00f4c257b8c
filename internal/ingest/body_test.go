package ingest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/languages"
)

func mustGzip(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zw, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	require.NoError(t, err)
	_, err = zw.Write(data)
	require.NoError(t, err)
	require.NoError(t, zw.Close())
	return b.Bytes()
}

func TestReadBody(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	l.MaxBytes = 1000
	whole, over := bytes.Repeat([]byte("a"), 1000), bytes.Repeat([]byte("a"), 1001)
	zipped := mustGzip(t, whole)
	lost := errors.New("connection lost")
	tests := []struct {
		name, encoding string
		body           io.Reader
		want           []byte
		err            error // nil with want nil: a BadRequestError
	}{
		{"plain", "", bytes.NewReader(whole), whole, nil},
		{"identity", " Identity ", bytes.NewReader(whole), whole, nil},
		{"empty", "", strings.NewReader(""), []byte{}, nil},
		{"plain over", "", bytes.NewReader(over), nil, ErrBodyTooLarge},
		{"endless", "", iotest.OneByteReader(endless{}), nil, ErrBodyTooLarge},
		{"gzip", "gzip", bytes.NewReader(zipped), whole, nil},
		{"gzip in pieces", "X-GZIP", iotest.OneByteReader(bytes.NewReader(zipped)), whole, nil},
		{"gzip over", "gzip", bytes.NewReader(mustGzip(t, over)), nil, ErrBodyTooLarge},
		{"gzip in two members", "gzip", bytes.NewReader(append(mustGzip(t, whole[:600]), mustGzip(t, whole[:400])...)), whole, nil},
		{"gzip bomb", "gzip", bytes.NewReader(mustGzip(t, make([]byte, 64<<20))), nil, ErrBodyTooLarge},
		{"endless empty members", "gzip", &repeat{data: mustGzip(t, nil)}, nil, ErrBodyTooLarge},
		{"not gzip", "gzip", bytes.NewReader(whole), nil, nil},
		{"empty gzip", "gzip", strings.NewReader(""), nil, nil},
		{"gzip cut short", "gzip", bytes.NewReader(zipped[:len(zipped)-9]), nil, nil},
		{"gzip cut in its header", "gzip", bytes.NewReader(zipped[:5]), nil, nil},
		{"gzip with a wrong sum", "gzip", bytes.NewReader(flip(zipped, len(zipped)-6)), nil, nil},
		{"trailing garbage", "gzip", bytes.NewReader(append(bytes.Clone(zipped), "garbage"...)), nil, nil},
		{"other encoding", "br", bytes.NewReader(whole), nil, nil},
		{"twice encoded", "gzip, gzip", bytes.NewReader(zipped), nil, nil},
		{"connection lost", "", io.MultiReader(bytes.NewReader(whole[:10]), iotest.ErrReader(lost)), nil, lost},
		{"connection lost in gzip", "gzip", io.MultiReader(bytes.NewReader(zipped[:15]), iotest.ErrReader(lost)), nil, lost},
		{"client gone in gzip", "gzip", io.MultiReader(bytes.NewReader(zipped[:15]), iotest.ErrReader(io.ErrUnexpectedEOF)), nil, io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body, err := ReadBody(tt.body, tt.encoding, l)
			var bad *BadRequestError
			switch {
			case tt.want != nil:
				require.NoError(t, err)
				require.Equal(t, string(tt.want), string(body))
				RecycleBody(body)
			case tt.err != nil:
				require.ErrorIs(t, err, tt.err)
				require.NotErrorAs(t, err, &bad)
			default:
				require.ErrorAs(t, err, &bad)
			}
		})
	}
}

// A reader that failed must not spoil the next one: they are used again.
func TestReadBodyAfterFailures(t *testing.T) {
	t.Parallel()
	good := []byte(requestOf(eventWith("")))
	for range 50 {
		_, err := ReadBody(strings.NewReader("not gzip"), "gzip", DefaultLimits())
		require.Error(t, err)
		body, err := ReadBody(bytes.NewReader(mustGzip(t, good)), "gzip", DefaultLimits())
		require.NoError(t, err)
		b, err := Decode(body, testNow, DefaultLimits(), languages.New())
		require.NoError(t, err)
		require.Len(t, b.Events, 1)
		RecycleBody(body)
	}
	RecycleBody(nil)
}

func flip(data []byte, i int) []byte {
	data = bytes.Clone(data)
	data[i] ^= 0xff
	return data
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// repeat reads the same data again and again, without end.
type repeat struct {
	data []byte
	pos  int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.data[r.pos:])
	r.pos = (r.pos + n) % len(r.data)
	return n, nil
}
