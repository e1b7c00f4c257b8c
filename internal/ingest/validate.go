package ingest

import (
	"fmt"
	"time"

	"github.com/commma/commma/internal/activity"
)

// Limits are the bounds of one request. The zero value admits nothing: start from DefaultLimits.
type Limits struct {
	MaxEvents int           // events in one request
	MaxBytes  int64         // bytes of the body, after decompression
	MaxAge    time.Duration // how far back of now a timestamp may lie
	MaxAhead  time.Duration // how far ahead of now a timestamp may lie
}

// DefaultLimits are the limits of the published contract: 500 events, 1 MiB, 30 days back and 5 minutes ahead.
func DefaultLimits() Limits {
	return Limits{MaxEvents: 500, MaxBytes: 1 << 20, MaxAge: 720 * time.Hour, MaxAhead: 5 * time.Minute}
}

// Caps of an event's values, as the published contract has them. Texts are counted in code points: clients count UTF-16
// units, which are never fewer, so nothing that a client lets pass is refused here.
const (
	maxTS         = 4_102_444_800_000 // 2100-01-01 in milliseconds
	maxKeystrokes = 1_000_000
	maxLines      = 1_000_000
	maxKeyCount   = 1_000_000
	maxLang       = 64
	maxFile       = 1024
	maxProject    = 256
)

// Reason says why an event was refused. The set is small and closed, so that it can label a metric.
type Reason string

// The reasons. "Invalid" means missing, of another type or out of range; an event that has several flaws is refused for
// the one that stands first here.
const (
	ReasonNotAnObject       Reason = "not_an_object"
	ReasonInvalidID         Reason = "invalid_id" // not a UUID of 36 characters
	ReasonInvalidTS         Reason = "invalid_ts"
	ReasonInvalidKeystrokes Reason = "invalid_keystrokes"
	ReasonInvalidLines      Reason = "invalid_lines"
	ReasonInvalidLang       Reason = "invalid_lang"
	ReasonLangTooLong       Reason = "lang_too_long"
	ReasonInvalidFile       Reason = "invalid_file"
	ReasonFileTooLong       Reason = "file_too_long"
	ReasonInvalidProject    Reason = "invalid_project"
	ReasonProjectTooLong    Reason = "project_too_long"
	ReasonInvalidKeyFreq    Reason = "invalid_key_freq" // not an object, or a count that is negative or no integer
	ReasonTooOld            Reason = "too_old"          // further back than Limits.MaxAge, or than the stored horizon
	ReasonInFuture          Reason = "in_future"        // further ahead than Limits.MaxAhead
)

// Rejection is one refused event of a batch.
type Rejection struct {
	Index  int    // place in the request, from 0
	ID     string // the id if it has the form of one, else empty
	Reason Reason
}

// maxRejected bounds the refused events that an answer lists: it must not grow far beyond its request.
const maxRejected = 50

// Batch is what one request holds. Nothing in it points into the request's body.
type Batch struct {
	// Events are the accepted events in the order of the request. Exact repeats are left out; copies that share id and
	// timestamp but differ otherwise all stand here, for which one counts is decided where all copies are known.
	Events []activity.Event
	// Listed says of each of Events whether its language is listed.
	Listed []bool
	// Received counts the accepted events, repeats too.
	Received int
	// Duplicates counts those of Received that repeat the id and timestamp of an earlier one.
	Duplicates int
	// Rejected are the first 50 refused events.
	Rejected []Rejection
	// RejectedTotal counts all refused events; ByReason splits it.
	RejectedTotal int
	ByReason      map[Reason]int // nil when nothing was refused

	places []place // for each of Events
}

// place says where an accepted event stood in its request.
type place struct {
	index   int  // from 0
	repeats int  // exact repeats of it that were left out
	copied  bool // an earlier event has the same id and timestamp
}

// refuseBefore turns the accepted events before horizon, in seconds since the epoch, into refused ones: the storing
// transaction did not take them. All copies of an event are on the same side.
func (b *Batch) refuseBefore(horizon int64) {
	kept := 0
	for i := range b.Events {
		if b.Events[i].Second() >= horizon {
			b.Events[kept], b.Listed[kept], b.places[kept] = b.Events[i], b.Listed[i], b.places[i]
			kept++
			continue
		}
		p := b.places[i]
		b.Received -= 1 + p.repeats
		b.Duplicates -= p.repeats
		if p.copied {
			b.Duplicates--
		}
		for range 1 + p.repeats {
			b.reject(p.index, b.Events[i].ID.String(), ReasonTooOld)
		}
	}
	b.Events, b.Listed, b.places = b.Events[:kept], b.Listed[:kept], b.places[:kept]
}

func (b *Batch) reject(index int, id string, reason Reason) {
	if b.ByReason == nil {
		b.ByReason = make(map[Reason]int)
	}
	b.ByReason[reason]++
	b.RejectedTotal++
	if len(b.Rejected) < maxRejected {
		b.Rejected = append(b.Rejected, Rejection{Index: index, ID: id, Reason: reason})
	}
}

// window is the stretch of time that events are accepted from, in milliseconds since the epoch, both ends included.
type window struct{ oldest, newest int64 }

func windowAt(now time.Time, l Limits) window {
	return window{oldest: now.Add(-l.MaxAge).UnixMilli(), newest: now.Add(l.MaxAhead).UnixMilli()}
}

// check is the reason that a timestamp is outside of the window, or empty.
func (w window) check(ts int64) Reason {
	switch {
	case ts < w.oldest:
		return ReasonTooOld
	case ts > w.newest:
		return ReasonInFuture
	}
	return ""
}

// BadRequestError is a request that can never be read, however often it is sent. Message is for the client and repeats
// nothing of what was sent.
type BadRequestError struct{ Message string }

func (e *BadRequestError) Error() string { return "bad request: " + e.Message }

func badRequest(format string, args ...any) error {
	return &BadRequestError{Message: fmt.Sprintf(format, args...)}
}
