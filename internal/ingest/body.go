package ingest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// ErrBodyTooLarge is a body over Limits.MaxBytes. Clients answer it by sending less at once.
var ErrBodyTooLarge = errors.New("body too large")

// gzipSlack is what a compressed body may be larger than the limit of what it decompresses to. Without a bound of its
// own, a stream of empty members would be read for ever: it never decompresses to anything.
const gzipSlack = 64 << 10

var (
	bodies  = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	gunzips sync.Pool // of *gzip.Reader
)

// ReadBody reads a request's body, decompressed if contentEncoding says gzip. It never holds more than l.MaxBytes: what
// is larger is ErrBodyTooLarge. A body that is not what its encoding says is a *BadRequestError; any other error is the
// connection's. The caller may hand the slice to RecycleBody when it is done with it.
func ReadBody(r io.Reader, contentEncoding string, l Limits) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "", "identity":
		body, err := readLimited(r, l.MaxBytes)
		if err != nil && !errors.Is(err, ErrBodyTooLarge) {
			err = fmt.Errorf("read body: %w", err)
		}
		return body, err
	case "gzip", "x-gzip":
		return readGzip(r, l)
	}
	return nil, badRequest("the content encoding is not supported: use gzip or none")
}

// TooLarge says of a body of n bytes, as it is sent, that it is over the limit whatever its encoding: nobody has to wait
// for it.
func (l Limits) TooLarge(n int64) bool { return n > l.MaxBytes+gzipSlack }

// RecycleBody gives the memory of a body from ReadBody back. A Batch does not point into it.
func RecycleBody(body []byte) {
	if cap(body) > 0 {
		bodies.Put(bytes.NewBuffer(body[:0]))
	}
}

func readLimited(r io.Reader, limit int64) ([]byte, error) {
	buf := bodies.Get().(*bytes.Buffer)
	_, err := buf.ReadFrom(io.LimitReader(r, limit+1))
	if err == nil && int64(buf.Len()) > limit {
		err = ErrBodyTooLarge
	}
	if err != nil {
		buf.Reset()
		bodies.Put(buf)
		return nil, err
	}
	return buf.Bytes(), nil
}

func readGzip(r io.Reader, l Limits) ([]byte, error) {
	src := &source{r: r, left: l.MaxBytes + gzipSlack}
	body, err := gunzip(src, l.MaxBytes)
	switch {
	case err == nil, errors.Is(err, ErrBodyTooLarge):
		return body, err
	case src.err != nil:
		return nil, fmt.Errorf("read body: %w", src.err)
	}
	return nil, badRequest("the body is not valid gzip")
}

func gunzip(src io.Reader, limit int64) ([]byte, error) {
	zr, ok := gunzips.Get().(*gzip.Reader)
	if !ok {
		zr = new(gzip.Reader)
	}
	defer gunzips.Put(zr)
	if err := zr.Reset(src); err != nil {
		return nil, err
	}
	return readLimited(zr, limit)
}

// source bounds what is read of a compressed body, and remembers a failure of the connection, which gzip reports in the
// same words as a body that is cut short.
type source struct {
	r    io.Reader
	left int64
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, ErrBodyTooLarge
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
