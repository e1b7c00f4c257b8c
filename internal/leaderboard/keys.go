package leaderboard

import (
	"net/url"

	"github.com/google/uuid"
)

// All keys of a board carry its hash tag, so that one script may touch them on a cluster. The language is escaped
// because it may hold any character: "c", "c++" and "c#" are three boards, and none of them ends the tag early. What is
// stored under these keys may change only together with their prefix: two releases may run side by side.

func (b Board) tag() string {
	return "{lb:" + string(b.Period) + ":" + b.StartsOn.String() + ":" + url.QueryEscape(b.Lang) + "}"
}

// boardKeys are the keys of one board.
type boardKeys struct {
	scores   string // sorted set: user -> seconds
	members  string // hash: user -> version and facts; and the mark
	building string // string: the token of who builds the board; expires
	notes    string // hash: user who is to be left out of what is being built -> version; and the token; expires
}

func (b Board) keys() boardKeys {
	tag := b.tag()
	return boardKeys{scores: tag + ":z", members: tag + ":m", building: tag + ":building", notes: tag + ":notes"}
}

// asideKeys are those of the build of one generation; they expire.
type asideKeys struct {
	scores, members string // where it gathers its rows
	over            string // string: that it has ended
}

func (b Board) aside(generation string) asideKeys {
	prefix := b.tag() + ":build:" + generation
	return asideKeys{scores: prefix + ":z", members: prefix + ":m", over: b.tag() + ":over:" + generation}
}

// memberOf is a user's member and field.
func memberOf(id uuid.UUID) string { return id.String() }
