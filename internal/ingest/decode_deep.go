package ingest

import "strings"

// mostDepth is how deep containers nest in a body before what is inside of them is left out. Nothing that the contract
// has lies deeper than the values of key_freq, at 4, where a container is of the wrong type whatever is in it.
const mostDepth = 64

// flatten empties all containers of a body that lie deeper than mostDepth, so that a decoder which takes a call, or a
// bounded counter, per level can read it: fields that the contract lacks may nest as deep as the body is long. It costs
// one pass and no recursion, and is used only for bodies that the decoder refused. What is left out is checked as
// strictly as what stays: at is the offset of the first byte that is wrong, and -1 if the body is JSON.
func flatten(body []byte) (flat []byte, at int) {
	f := flattener{scan: scan{b: body}}
	if !f.run() {
		return nil, f.i
	}
	return f.flat, -1
}

// flattener copies a body as it scans it. open holds the brackets that wait for their partner.
type flattener struct {
	scan
	open []byte
	flat []byte
	kept int // up to here the body was copied, or left out
}

// run reads one value and what may follow it.
func (f *flattener) run() bool {
	for f.value() {
		if done, ok := f.after(); done || !ok {
			f.flat = append(f.flat, f.b[f.kept:]...)
			return ok
		}
	}
	return false
}

// value reads a scalar or an empty container, or goes into containers until it has read one.
func (f *flattener) value() bool {
	for {
		f.blanks()
		switch c := f.peek(); c {
		case '{', '[':
			f.i++
			f.push(c)
			f.blanks()
			if f.peek() == partner(c) {
				f.pop()
				return true
			}
			if c == '{' && !f.name() {
				return false
			}
		default:
			return f.scalar()
		}
	}
}

// after reads what stands between values: a comma, or the ends of containers. done says that the whole body was read.
func (f *flattener) after() (done, ok bool) {
	for {
		f.blanks()
		if len(f.open) == 0 {
			return true, f.i == len(f.b)
		}
		inside := f.open[len(f.open)-1]
		switch f.peek() {
		case partner(inside):
			f.pop()
		case ',':
			f.i++
			return false, inside == '[' || f.name()
		default:
			return false, false
		}
	}
}

// push enters the container whose bracket was just read.
func (f *flattener) push(bracket byte) {
	if f.open = append(f.open, bracket); len(f.open) == mostDepth+1 {
		f.flat = append(f.flat, f.b[f.kept:f.i]...)
	}
}

// pop leaves the container whose closing bracket comes next.
func (f *flattener) pop() {
	if len(f.open) == mostDepth+1 {
		f.kept = f.i
	}
	f.open = f.open[:len(f.open)-1]
	f.i++
}

func partner(bracket byte) byte { return bracket + 2 } // of [ and {, in ASCII

// scan reads the smallest parts of JSON, as strictly as the decoder does. It stops at the first byte that is wrong.
type scan struct {
	b []byte
	i int
}

// peek is the next byte, and 0, which no part of JSON starts with, at the end.
func (s *scan) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scan) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

func (s *scan) blanks() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\n' || s.b[s.i] == '\r') {
		s.i++
	}
}

// name reads a field's name and its colon.
func (s *scan) name() bool {
	s.blanks()
	if !s.text() {
		return false
	}
	s.blanks()
	return s.take(':')
}

func (s *scan) scalar() bool {
	switch s.peek() {
	case '"':
		return s.text()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scan) word(w string) bool {
	for i := range len(w) {
		if !s.take(w[i]) {
			return false
		}
	}
	return true
}

// text reads a string. Bytes that are not UTF-8 are let pass, as everywhere.
func (s *scan) text() bool {
	if !s.take('"') {
		return false
	}
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return true
		case c == '\\':
			s.i++
			if !s.escape() {
				return false
			}
		case c < ' ':
			return false
		default:
			s.i++
		}
	}
	return false
}

// escape reads what follows a backslash.
func (s *scan) escape() bool {
	c := s.peek()
	if c != 'u' {
		ok := c != 0 && strings.IndexByte(`"\/bfnrt`, c) >= 0
		if ok {
			s.i++
		}
		return ok
	}
	s.i++
	for range 4 {
		c := s.peek()
		if lower := c | 0x20; (c < '0' || c > '9') && (lower < 'a' || lower > 'f') {
			return false
		}
		s.i++
	}
	return true
}

func (s *scan) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if !s.take('+') {
			s.take('-')
		}
		return s.digits()
	}
	return true
}

// digits reads one digit or more.
func (s *scan) digits() bool {
	from := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > from
}
