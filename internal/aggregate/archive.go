package aggregate

import (
	"encoding/binary"
	"fmt"

	"github.com/commma/commma/internal/activity"
)

// archiveFormat is the first byte of every chunk.
const archiveFormat = 1

// Bounds of one chunk: whichever is reached first ends it, so that no row and no statement grows with a session.
const (
	chunkEvents       = 4096
	chunkDetailsBytes = 1 << 20
)

// chunk is one row of the archive and, when any of its events has private details, the row beside it.
type chunk struct {
	events  []byte
	details []byte // nil without details
}

// encodeArchive packs folded events into chunks.
//
// A chunk is the format byte, the number of events, a dictionary of language keys, and per event its id, timestamp (the
// first whole, then differences), language, keystrokes and lines. The details beside it are the format byte, the same
// number, a dictionary of texts, and per event the indexes of project, file and key counts, 0 for absent. All numbers
// are varints.
func encodeArchive(events []activity.Event) []chunk {
	var chunks []chunk
	for len(events) > 0 {
		n := chunkLen(events)
		chunks = append(chunks, chunk{encodeEvents(events[:n]), encodeDetails(events[:n])})
		events = events[n:]
	}
	return chunks
}

func chunkLen(events []activity.Event) int {
	size := 0
	for i := range events {
		size += len(events[i].Project) + len(events[i].File) + len(events[i].KeyFreq)
		if i == chunkEvents || size > chunkDetailsBytes && i > 0 {
			return i
		}
	}
	return len(events)
}

func encodeEvents(events []activity.Event) []byte {
	langs := newDictionary()
	body := make([]byte, 0, 24*len(events))
	last := int64(0)
	for i := range events {
		e := &events[i]
		body = append(body, e.ID[:]...)
		body = binary.AppendVarint(body, e.TS-last)
		body = binary.AppendUvarint(body, langs.index(e.Lang))
		body = binary.AppendVarint(body, int64(e.Keystrokes))
		body = binary.AppendVarint(body, int64(e.Lines))
		last = e.TS
	}
	return langs.frame(len(events), body)
}

func encodeDetails(events []activity.Event) []byte {
	texts := newDictionary()
	texts.index("") // absent is 0
	var body []byte
	for i := range events {
		e := &events[i]
		for _, s := range [...]string{e.Project, e.File, e.KeyFreq} {
			body = binary.AppendUvarint(body, texts.index(s))
		}
	}
	if len(texts.words) == 1 {
		return nil
	}
	return texts.frame(len(events), body)
}

// dictionary numbers the distinct texts of a chunk in order of first use.
type dictionary struct {
	words   []string
	indexes map[string]uint64
}

func newDictionary() *dictionary { return &dictionary{indexes: make(map[string]uint64)} }

func (d *dictionary) index(word string) uint64 {
	i, ok := d.indexes[word]
	if !ok {
		i = uint64(len(d.words))
		d.indexes[word] = i
		d.words = append(d.words, word)
	}
	return i
}

func (d *dictionary) frame(events int, body []byte) []byte {
	out := []byte{archiveFormat}
	out = binary.AppendUvarint(out, uint64(events))
	out = binary.AppendUvarint(out, uint64(len(d.words)))
	for _, w := range d.words {
		out = binary.AppendUvarint(out, uint64(len(w)))
		out = append(out, w...)
	}
	return append(out, body...)
}

// decodeChunk appends a chunk's events to dst. Without details, as after an erasure, they come back stripped.
func decodeChunk(dst []activity.Event, c chunk) ([]activity.Event, error) {
	r := &reader{rest: c.events}
	n, langs := r.frame()
	start, last := len(dst), int64(0)
	for range n {
		var e activity.Event
		copy(e.ID[:], r.take(len(e.ID)))
		last += r.varint()
		e.TS = last
		e.Lang = r.word(langs)
		e.Keystrokes = int32(r.varint())
		e.Lines = int32(r.varint())
		dst = append(dst, e)
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if c.details == nil {
		return dst, nil
	}
	return dst, decodeDetails(dst[start:], c.details)
}

func decodeDetails(events []activity.Event, details []byte) error {
	r := &reader{rest: details}
	n, texts := r.frame()
	if n != len(events) {
		return fmt.Errorf("read details: %w", errArchive)
	}
	for i := range events {
		events[i].Project, events[i].File, events[i].KeyFreq = r.word(texts), r.word(texts), r.word(texts)
	}
	return r.end()
}

// reader reads what the encoders wrote. After the first fault it yields zeros; end reports it.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) frame() (events int, words []string) {
	if f := r.take(1); r.bad || f[0] != archiveFormat {
		r.bad = true
		return 0, nil
	}
	n, w := r.uvarint(), r.uvarint()
	// Every event and every word takes at least a byte: a larger count is damage, not a reason to allocate.
	if n > uint64(len(r.rest)) || w > uint64(len(r.rest)) {
		r.bad = true
		return 0, nil
	}
	words = make([]string, 0, w)
	for range w {
		words = append(words, string(r.take(int(min(r.uvarint(), uint64(len(r.rest)+1))))))
	}
	return int(n), words
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.rest) {
		r.bad = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) word(words []string) string {
	i := r.uvarint()
	if i >= uint64(len(words)) {
		r.bad = true
		return ""
	}
	return words[i]
}

func (r *reader) end() error {
	if r.bad || len(r.rest) > 0 {
		return fmt.Errorf("read archive: %w", errArchive)
	}
	return nil
}
