package leaderboard

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/google/uuid"
)

// ErrBadCursor is a cursor that no page has given out.
var ErrBadCursor = errors.New("bad cursor")

// place is a position in the order of a board: by seconds, then by user, both descending. It says where the next page
// starts without naming an index, so that what happens above it moves nobody.
type place struct {
	seconds int64
	user    uuid.UUID
}

// top is before every place.
var top = place{seconds: maxSeconds + 1, user: uuid.Max}

// maxSeconds is the largest score that is exact, in Redis and in its scripts: 285 million years.
const maxSeconds = 1<<53 - 1

const cursorBytes = 8 + 16

var cursorEncoding = base64.RawURLEncoding.Strict()

func (p place) cursor() string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorBytes), uint64(p.seconds))
	return cursorEncoding.EncodeToString(append(b, p.user[:]...))
}

func parseCursor(s string) (place, error) {
	b, err := cursorEncoding.DecodeString(s)
	if err != nil || len(b) != cursorBytes {
		return place{}, ErrBadCursor
	}
	seconds := binary.BigEndian.Uint64(b)
	if seconds == 0 || seconds > maxSeconds {
		return place{}, ErrBadCursor
	}
	p := place{seconds: int64(seconds)}
	copy(p.user[:], b[8:])
	return p, nil
}
