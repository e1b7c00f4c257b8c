package ingest

import (
	"bytes"
	"unicode/utf8"
)

// cleanText makes raw what Postgres can store: valid UTF-8 (each invalid byte becomes U+FFFD) without NULs. ok is false
// if that is longer than maxRunes code points; then nothing is copied.
func cleanText(raw []byte, maxRunes int) (text string, ok bool) {
	if utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		if len(raw) > maxRunes && utf8.RuneCount(raw) > maxRunes {
			return "", false
		}
		return string(raw), true
	}
	clean := make([]byte, 0, min(len(raw), maxRunes*utf8.UTFMax))
	for count := 0; len(raw) > 0; {
		r, size := utf8.DecodeRune(raw)
		raw = raw[size:]
		if r == 0 {
			continue
		}
		if count++; count > maxRunes {
			return "", false
		}
		clean = utf8.AppendRune(clean, r)
	}
	return string(clean), true
}

// lastText is the latest value of one text field of a batch. Neighbours mostly have the same project, often the same
// file: they then share one string.
type lastText struct {
	loaded  bool
	raw     []byte // a copy
	text    string
	tooLong bool
}

// load makes t hold the text of raw, and reports whether that changed it.
func (t *lastText) load(raw []byte, maxRunes int) (changed bool) {
	if t.loaded && bytes.Equal(raw, t.raw) {
		return false
	}
	text, ok := cleanText(raw, maxRunes)
	t.loaded, t.raw, t.text, t.tooLong = true, append(t.raw[:0], raw...), text, !ok
	return true
}
