package leaderboard

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/bits"

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

// between is a place after last and not after next, of which next is the one that follows last. A page that starts after it
// starts where one after last would, and whoever does not move is seen once: what becomes of last and next does not matter.
//
// It is what a cursor holds, since boards are public and ids are not: of last's id it has only the bits that tell it from
// next's, and none at all unless the two have equal seconds.
func between(last, next place) place {
	p := place{seconds: last.seconds}
	if last.seconds != next.seconds {
		return p
	}
	for i := range p.user {
		if differ := last.user[i] ^ next.user[i]; differ != 0 {
			lower := byte(0xff) >> bits.LeadingZeros8(differ) >> 1 // the bits below the first that differs
			p.user[i] = last.user[i] &^ lower
			return p
		}
		p.user[i] = last.user[i]
	}
	return p
}

const secondsBytes = 8

var cursorEncoding = base64.RawURLEncoding.Strict()

// cursor is a place as text. Zero bytes at the end of the user are left out.
func (p place) cursor() string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, secondsBytes+len(p.user)), uint64(p.seconds))
	return cursorEncoding.EncodeToString(append(b, bytes.TrimRight(p.user[:], "\x00")...))
}

func parseCursor(s string) (place, error) {
	b, err := cursorEncoding.DecodeString(s)
	if err != nil || len(b) < secondsBytes || len(b) > secondsBytes+len(uuid.UUID{}) {
		return place{}, ErrBadCursor
	}
	seconds, user := binary.BigEndian.Uint64(b), b[secondsBytes:]
	if seconds == 0 || seconds > maxSeconds || bytes.HasSuffix(user, []byte{0}) {
		return place{}, ErrBadCursor
	}
	p := place{seconds: int64(seconds)}
	copy(p.user[:], user)
	return p, nil
}
