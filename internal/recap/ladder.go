package recap

import "sort"

// Ladder tells the ranks of a week: which numbers of seconds there are, and how many users have more. It has a step per
// number of seconds, so that it is as small for a million users as for those that a week has seconds.
type Ladder struct {
	seconds []int64 // most first
	above   []int64 // users with more than that
}

// add adds a lower step.
func (l *Ladder) add(seconds, users int64) {
	l.seconds = append(l.seconds, seconds)
	if len(l.above) == 0 {
		l.above = append(l.above, 0)
	}
	l.above = append(l.above, l.above[len(l.above)-1]+users)
}

// Rank is the rank of who has so many seconds, whether or not the ladder has seen them; nil for none.
func (l *Ladder) Rank(seconds int64) *int64 {
	if seconds <= 0 {
		return nil
	}
	rank := int64(1)
	if i := sort.Search(len(l.seconds), func(i int) bool { return l.seconds[i] <= seconds }); len(l.above) > 0 {
		rank += l.above[i]
	}
	return &rank
}
