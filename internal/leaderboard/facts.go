package leaderboard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/commma/commma/internal/calendar"
)

// Facts are what a page shows of a user beside the seconds. They are stored with each of the user's places, so whatever
// changes one of them raises the user's version.
type Facts struct {
	Handle      string
	AvatarURL   string        // "" when there is none
	TopLang     string        // the user's language with most seconds in the span, of those that have boards; ties to the smaller key
	StreakFirst *calendar.Day // first and last day of the latest run of active days
	StreakLast  *calendar.Day
	Zone        string // the user's present zone, an IANA name
}

// separator cannot occur in a fact: Postgres stores no NUL in a text.
const separator = "\x00"

const factCount = 6

// pack is the facts as one string.
func (f Facts) pack() string {
	return strings.Join([]string{f.Handle, f.AvatarURL, f.TopLang, packDay(f.StreakFirst), packDay(f.StreakLast), f.Zone}, separator)
}

// packMember is the value of a user's field: the version first, which is all that the fence reads.
func packMember(version int64, f Facts) string {
	return strconv.FormatInt(version, 10) + separator + f.pack()
}

func packDay(d *calendar.Day) string {
	if d == nil {
		return ""
	}
	return strconv.Itoa(int(*d))
}

// errBadMember is a hash field that we did not write.
var errBadMember = errors.New("not a member's value")

func unpackMember(s string) (int64, Facts, error) {
	var parts [1 + factCount]string // not Split: a page has a hundred members
	for i := range factCount {
		var ok bool
		if parts[i], s, ok = strings.Cut(s, separator); !ok {
			return 0, Facts{}, errBadMember
		}
	}
	if parts[factCount] = s; strings.Contains(s, separator) {
		return 0, Facts{}, errBadMember
	}
	version, errVersion := strconv.ParseInt(parts[0], 10, 64)
	first, errFirst := unpackDay(parts[4])
	last, errLast := unpackDay(parts[5])
	if err := errors.Join(errVersion, errFirst, errLast); err != nil {
		return 0, Facts{}, fmt.Errorf("%w: %w", errBadMember, err)
	}
	return version, Facts{
		Handle: parts[1], AvatarURL: parts[2], TopLang: parts[3], StreakFirst: first, StreakLast: last, Zone: parts[6],
	}, nil
}

func unpackDay(s string) (*calendar.Day, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // no streak is not an error
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return nil, err
	}
	d := calendar.Day(n)
	return &d, nil
}
