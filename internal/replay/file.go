package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of the file, in bytes. No event of this size could be uploaded.
const maxLine = 1 << 20

// File is a checked file of events. It reads on from the source that it was loaded from.
type File struct {
	src    io.ReaderAt
	users  []*user // in order of appearance
	events int
	first  int64 // ms since the epoch
	last   int64
}

// user is one user's part of the file.
type user struct {
	name   string
	events []entry
}

// entry is where an event's line stands.
type entry struct {
	offset int64
	size   int
}

// Events is how many events the file has.
func (f *File) Events() int { return f.events }

// Users are the users of the file in the order of their first events.
func (f *File) Users() []string {
	names := make([]string, len(f.users))
	for i, u := range f.users {
		names[i] = u.name
	}
	return names
}

// event is an event on the wire. What the server judges stays as it was written.
type event struct {
	ID         string          `json:"id"`
	TS         int64           `json:"ts"`
	Lang       json.RawMessage `json:"lang,omitempty"`
	File       json.RawMessage `json:"file,omitempty"`
	Project    json.RawMessage `json:"project,omitempty"`
	Keystrokes json.RawMessage `json:"keystrokes,omitempty"`
	Lines      json.RawMessage `json:"lines,omitempty"`
	KeyFreq    json.RawMessage `json:"key_freq,omitempty"`
}

// line is a line of the file.
type line struct {
	User string `json:"user"`
	event
}

func parseLine(text []byte) (line, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return l, err
	}
	switch {
	case l.User == "":
		return l, errors.New("user is missing")
	case l.ID == "":
		return l, errors.New("id is missing")
	case l.TS <= 0:
		return l, errors.New("ts is missing or not positive")
	}
	return l, nil
}

// Load checks all of src, which is size bytes long. The error names the first bad line.
func Load(src io.ReaderAt, size int64) (*File, error) {
	f := &File{src: src}
	byName := make(map[string]*user)
	r := bufio.NewReaderSize(io.NewSectionReader(src, 0, size), maxLine)
	var offset int64
	for n := 1; ; n++ {
		text, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("read events: line %d: longer than %d bytes", n, maxLine)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read events: %w", err)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			l, err := parseLine(text)
			if err != nil {
				return nil, fmt.Errorf("read events: line %d: %w", n, err)
			}
			f.add(byName, l, entry{offset, len(text)})
		}
		if err != nil {
			break
		}
		offset += int64(len(text))
	}
	if f.events == 0 {
		return nil, errors.New("read events: the file has none")
	}
	return f, nil
}

func (f *File) add(byName map[string]*user, l line, at entry) {
	u := byName[l.User]
	if u == nil {
		u = &user{name: l.User}
		byName[l.User] = u
		f.users = append(f.users, u)
	}
	u.events = append(u.events, at)
	if f.events == 0 {
		f.first, f.last = l.TS, l.TS
	}
	f.first, f.last = min(f.first, l.TS), max(f.last, l.TS)
	f.events++
}

// body is the request that uploads events, moved in time by shift milliseconds.
func (f *File) body(entries []entry, shift int64) ([]byte, error) {
	events := make([]event, len(entries))
	for i, at := range entries {
		text := make([]byte, at.size)
		if _, err := f.src.ReadAt(text, at.offset); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read events: %w", err)
		}
		l, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("read events: the file has changed: %w", err)
		}
		events[i] = l.event
		events[i].TS += shift
	}
	return json.Marshal(map[string]any{"events": events})
}
