package ingest

import (
	"github.com/go-faster/jx"
	"github.com/google/uuid"

	"github.com/commma/commma/internal/activity"
)

// The fields of an event, in the order in which their flaws are reported.
const (
	fieldID = iota
	fieldTS
	fieldKeystrokes
	fieldLines
	fieldLang
	fieldFile
	fieldProject
	fieldKeyFreq
	fieldCount
)

// draft is the event being read. Every appearance of a field replaces what an earlier one left, flaws too, so that the
// last one counts.
type draft struct {
	event  activity.Event
	listed bool
	flaws  [fieldCount]Reason // empty: the field is fine

	idText [idLength]byte // the id as it was sent, unless it is flawed
}

// idLength is that of a UUID in its usual form.
const idLength = len("00000000-0000-0000-0000-000000000000")

// reset empties the draft: what is required is missing until it is seen.
func (f *draft) reset() {
	*f = draft{event: activity.Event{}}
	f.flaws[fieldID] = ReasonInvalidID
	f.flaws[fieldTS] = ReasonInvalidTS
	f.flaws[fieldKeystrokes] = ReasonInvalidKeystrokes
	f.flaws[fieldLines] = ReasonInvalidLines
}

// flaw is the reason to refuse the draft, or empty.
func (f *draft) flaw(w window) Reason {
	for _, reason := range f.flaws {
		if reason != "" {
			return reason
		}
	}
	return w.check(f.event.TS)
}

// id is the id that a refusal repeats: none unless it has the form of one, since what else is sent may be of any length,
// and may be anything.
func (f *draft) id() string {
	if f.flaws[fieldID] != "" {
		return ""
	}
	return string(f.idText[:])
}

// readEvent reads the object that the decoder stands before into the draft.
func (d *decoder) readEvent() error {
	d.draft.reset()
	d.draft.event.Lang, d.draft.listed = d.langs.Resolve("")
	it, err := d.jx.ObjIter()
	if err != nil {
		return err
	}
	for it.Next() {
		if err := d.readField(it.Key()); err != nil {
			return err
		}
	}
	return it.Err()
}

func (d *decoder) readField(name []byte) error {
	e := &d.draft.event
	switch string(name) {
	case "id":
		return d.readID()
	case "ts":
		return readInt(d, fieldTS, &e.TS, 1, maxTS, ReasonInvalidTS)
	case "keystrokes":
		return readInt(d, fieldKeystrokes, &e.Keystrokes, 0, maxKeystrokes, ReasonInvalidKeystrokes)
	case "lines":
		return readInt(d, fieldLines, &e.Lines, -maxLines, maxLines, ReasonInvalidLines)
	case "lang":
		return d.readLang()
	case "file":
		return d.readText(fieldFile, &e.File, &d.file, maxFile, ReasonInvalidFile, ReasonFileTooLong)
	case "project":
		return d.readText(fieldProject, &e.Project, &d.project, maxProject, ReasonInvalidProject, ReasonProjectTooLong)
	case "key_freq":
		return d.readKeyFreq()
	}
	return d.jx.Skip() // fields that the contract lacks are ignored
}

// readID reads a UUID of any version in its 36-character form.
func (d *decoder) readID() error {
	f := &d.draft
	f.event.ID, f.flaws[fieldID] = uuid.UUID{}, ReasonInvalidID
	if d.jx.Next() != jx.String {
		return d.jx.Skip()
	}
	raw, err := d.jx.StrBytes()
	if err != nil || len(raw) != idLength {
		return err
	}
	copy(f.idText[:], raw)
	if id, err := uuid.ParseBytes(raw); err == nil {
		f.event.ID, f.flaws[fieldID] = id, ""
	}
	return nil
}

func readInt[T int32 | int64](d *decoder, field int, to *T, lo, hi int64, invalid Reason) error {
	d.draft.flaws[field] = invalid
	if d.jx.Next() != jx.Number {
		return d.jx.Skip()
	}
	num, err := d.jx.Raw()
	if err != nil {
		return err
	}
	if v, ok := parseInteger(num); ok && lo <= v && v <= hi {
		*to, d.draft.flaws[field] = T(v), ""
	}
	return nil
}

// readString reads an optional string: nil and no flaw for null, a flaw for every other type.
func (d *decoder) readString(field int, invalid Reason) ([]byte, error) {
	switch d.jx.Next() {
	case jx.String:
		d.draft.flaws[field] = ""
		return d.jx.StrBytes()
	case jx.Null:
		d.draft.flaws[field] = ""
	default:
		d.draft.flaws[field] = invalid
	}
	return nil, d.jx.Skip()
}

func (d *decoder) readText(field int, to *string, last *lastText, maxRunes int, invalid, tooLong Reason) error {
	raw, err := d.readString(field, invalid)
	if *to = ""; err != nil || len(raw) == 0 {
		return err
	}
	last.load(raw, maxRunes)
	if *to = last.text; last.tooLong {
		d.draft.flaws[field] = tooLong
	}
	return nil
}

// readLang resolves the language once for neighbours that have the same.
func (d *decoder) readLang() error {
	f := &d.draft
	raw, err := d.readString(fieldLang, ReasonInvalidLang)
	if err != nil {
		return err
	}
	if d.lang.load(raw, maxLang) {
		d.langKey, d.langListed = d.langs.Resolve(d.lang.text)
	}
	if f.event.Lang, f.listed = d.langKey, d.langListed; d.lang.tooLong {
		f.flaws[fieldLang] = ReasonLangTooLong
	}
	return nil
}

func (d *decoder) readKeyFreq() error {
	f := &d.draft
	f.event.KeyFreq, f.flaws[fieldKeyFreq] = "", ""
	switch d.jx.Next() {
	case jx.Null:
		return d.jx.Skip()
	case jx.Object:
		if err := d.keys.read(&d.jx); err != nil {
			return err
		}
		var ok bool
		if f.event.KeyFreq, ok = d.keys.canonical(); ok {
			return nil
		}
		f.flaws[fieldKeyFreq] = ReasonInvalidKeyFreq
		return nil
	}
	f.flaws[fieldKeyFreq] = ReasonInvalidKeyFreq
	return d.jx.Skip()
}
