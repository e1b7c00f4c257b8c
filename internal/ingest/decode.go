package ingest

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-faster/jx"
	"github.com/google/uuid"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/languages"
)

// ErrTooManyEvents is a request of more than Limits.MaxEvents. Clients answer it by sending fewer at once.
var ErrTooManyEvents = errors.New("too many events")

// Decode reads a request's body: a JSON object whose "events" are 1 to l.MaxEvents events. It does no I/O and keeps
// nothing of body.
//
// An event that breaks the contract is refused alone, with its index and a Reason. A field that the contract lacks is
// ignored, of a field that stands twice the last one counts, null is as good as absent. Numbers may be spelled in any
// way that JSON has as long as they are integral. Lone surrogates and invalid UTF-8 become U+FFFD, NULs are removed.
// Timestamps are accepted from now - l.MaxAge to now + l.MaxAhead, both included.
//
// How deep ignored values nest does not matter. A body that is not such an object is a *BadRequestError. More than
// l.MaxEvents are ErrTooManyEvents, without reading the rest.
func Decode(body []byte, now time.Time, l Limits, langs *languages.Resolver) (*Batch, error) {
	d := decoders.Get().(*decoder)
	defer d.release()
	d.start(body, now, l, langs)
	found, err := d.readBody()
	if err != nil && !decided(err) {
		// It is no JSON, or nests too deep for the decoder.
		flat, at := flatten(body)
		if at >= 0 {
			return nil, malformed(body, at)
		}
		d.start(flat, now, l, langs)
		found, err = d.readBody()
	}
	switch {
	case err != nil && decided(err):
		return nil, err
	case err != nil:
		return nil, badRequest("the body is not valid JSON")
	case !found:
		return nil, badRequest("the body has no array of events")
	case d.count == 0:
		return nil, badRequest("the array of events is empty: send 1 to %d", l.MaxEvents)
	}
	return d.batch, nil
}

// decided says that an error of readBody is the answer, whatever else may be wrong with the body.
func decided(err error) bool {
	var bad *BadRequestError
	return errors.Is(err, ErrTooManyEvents) || errors.As(err, &bad)
}

// decoder is the state of one Decode. What is costly to make is used again.
type decoder struct {
	jx     jx.Decoder
	window window
	max    int
	langs  *languages.Resolver
	batch  *Batch
	count  int // events seen

	draft               draft
	keys                keyCounts
	lang, file, project lastText
	langKey             string
	langListed          bool

	copies map[eventKey]int // index in Events of the latest copy
	older  []int            // for each of Events, the index of the copy before it, or -1
}

// eventKey is what identifies an event of a user.
type eventKey struct {
	id uuid.UUID
	ts int64
}

var decoders = sync.Pool{New: func() any { return &decoder{copies: make(map[eventKey]int)} }}

func (d *decoder) start(body []byte, now time.Time, l Limits, langs *languages.Resolver) {
	d.jx.ResetBytes(body)
	d.window, d.max, d.langs = windowAt(now, l), l.MaxEvents, langs
	// Real events take 150 to 300 bytes: few batches have to grow.
	d.begin(min(len(body)/160+1, max(l.MaxEvents, 0)))
}

// begin starts an empty batch with room for n events.
func (d *decoder) begin(n int) {
	d.batch = &Batch{Events: make([]activity.Event, 0, n), Listed: make([]bool, 0, n), places: make([]place, 0, n)}
	d.count = 0
	clear(d.copies)
	d.older = d.older[:0]
}

// release forgets everything of the request, above all its paths, and gives the decoder back.
func (d *decoder) release() {
	clear(d.copies)
	*d = decoder{copies: d.copies, older: d.older[:0], keys: keyCounts{json: d.keys.json[:0]}}
	decoders.Put(d)
}

// readBody reads the whole body and reports whether it has an array of events. An error that is neither
// ErrTooManyEvents nor a *BadRequestError means that it is not JSON.
func (d *decoder) readBody() (found bool, err error) {
	switch d.jx.Next() {
	case jx.Object:
	case jx.Invalid:
		return false, io.ErrUnexpectedEOF
	default:
		return false, badRequest("the body is not a JSON object")
	}
	it, err := d.jx.ObjIter()
	if err != nil {
		return false, err
	}
	for it.Next() {
		switch {
		case string(it.Key()) != "events":
			err = d.jx.Skip()
		case d.jx.Next() == jx.Array:
			found = true
			err = d.readEvents()
		default:
			found = false
			err = d.jx.Skip()
		}
		if err != nil {
			return false, err
		}
	}
	if err := it.Err(); err != nil {
		return false, err
	}
	return found, d.readEnd()
}

// readEnd makes sure that nothing follows the body's object.
func (d *decoder) readEnd() error {
	if err := d.jx.Skip(); !errors.Is(err, io.EOF) {
		return errors.New("data after the object")
	}
	return nil
}

func (d *decoder) readEvents() error {
	if d.count > 0 {
		d.begin(0) // a second array replaces the first
	}
	it, err := d.jx.ArrIter()
	if err != nil {
		return err
	}
	for ; it.Next(); d.count++ {
		if d.count >= d.max {
			return ErrTooManyEvents
		}
		if d.jx.Next() != jx.Object {
			if err := d.jx.Skip(); err != nil {
				return err
			}
			d.batch.reject(d.count, "", ReasonNotAnObject)
			continue
		}
		if err := d.readEvent(); err != nil {
			return err
		}
		if reason := d.draft.flaw(d.window); reason != "" {
			d.batch.reject(d.count, d.draft.id(), reason)
			continue
		}
		d.keep(d.draft.event, d.draft.listed)
	}
	return it.Err()
}

// keep adds an accepted event, unless it is an exact repeat.
func (d *decoder) keep(e activity.Event, listed bool) {
	b, key := d.batch, eventKey{e.ID, e.TS}
	b.Received++
	before, repeated := d.copies[key]
	if !repeated {
		before = -1
	} else {
		b.Duplicates++
	}
	for i := before; i >= 0; i = d.older[i] {
		if b.Events[i] == e {
			b.places[i].repeats++
			return
		}
	}
	d.copies[key] = len(b.Events)
	d.older = append(d.older, before)
	b.Events = append(b.Events, e)
	b.Listed = append(b.Listed, listed)
	b.places = append(b.places, place{index: d.count, copied: repeated})
}

// malformed says where body stops being JSON: at the offset that flatten found, since the decoder does not tell.
func malformed(body []byte, at int) error {
	if at >= len(body) {
		return badRequest("the body is not valid JSON: it ends too early, at byte %d", len(body))
	}
	return badRequest("the body is not valid JSON: error at byte %d", at+1)
}
