package recap

import (
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/languages"
)

// Recap is a user's week in review. Days are the user's local ones.
type Recap struct {
	UserID uuid.UUID
	Handle string
	Week   Week
	AsOf   time.Time // UTC: the totals are of that moment

	Seconds      int64 // in all languages; the user's place on the week's board is by this
	PriorSeconds int64 // of the week before
	// Rank is one more than the number of users with more seconds, nil for who has no place on the board; PriorRank is that
	// of the week before.
	Rank, PriorRank *int64

	Sessions    int64 // that have seconds in the week
	BestSeconds int64 // of the session with most seconds in the week, and only those that lie in it; 0 for none
	BestID      uuid.UUID

	TopLang string // key of the listed language with most seconds; "" for none
	Langs   []Lang // most seconds first, at most MaxLangs; none where there are no seconds
	// OtherSeconds are those of the languages that are too many to list, or hidden.
	OtherSeconds int64
	Days         [7]Day // Monday to Sunday

	StreakDays int64 // that end today or yesterday in the user's zone, at AsOf
}

// Lang is a language's share of a week.
type Lang struct {
	Key     string
	Seconds int64
}

// Day is a day of a week, beside the same day of the week before.
type Day struct {
	Date         calendar.Day
	Seconds      int64
	PriorSeconds int64
}

// MaxLangs is how many languages a recap lists.
const MaxLangs = 20

// newRecap is a recap without anything in it.
func newRecap(userID uuid.UUID, w Week, asOf time.Time) *Recap {
	r := &Recap{UserID: userID, Week: w, AsOf: asOf}
	for i := range r.Days {
		r.Days[i].Date = w.Start() + calendar.Day(i)
	}
	return r
}

// total notes a total of all languages, of this week or the one before.
func (r *Recap) total(p calendar.Period, startsOn calendar.Day, seconds int64) {
	switch at := int(startsOn - r.Week.Start()); {
	case p == calendar.PeriodWeek && at == 0:
		r.Seconds = seconds
	case p == calendar.PeriodWeek && at == -7:
		r.PriorSeconds = seconds
	case p == calendar.PeriodDay && at >= 0 && at < 7:
		r.Days[at].Seconds = seconds
	case p == calendar.PeriodDay && at >= -7 && at < 0:
		r.Days[at+7].PriorSeconds = seconds
	}
}

// close works out what follows from the rest.
func (r *Recap) close() {
	r.OtherSeconds = r.Seconds
	for _, l := range r.Langs {
		r.OtherSeconds -= l.Seconds
	}
}

// hideUnlisted takes out the names of languages that are not listed.
func (r *Recap) hideUnlisted() {
	r.Langs = slices.DeleteFunc(r.Langs, func(l Lang) bool { return l.Key != languages.Unknown && !languages.Listed(l.Key) })
	r.close()
}

// Change is how much more than in the week before, in per cent, rounded to one decimal; nil when there was nothing then.
func (r *Recap) Change() *float64 {
	if r.PriorSeconds == 0 {
		return nil
	}
	pct := math.Round(float64(r.Seconds-r.PriorSeconds)/float64(r.PriorSeconds)*1000) / 10
	return &pct
}

// RankDelta is how many places the user has gained; nil without a place in both weeks.
func (r *Recap) RankDelta() *int64 {
	if r.Rank == nil || r.PriorRank == nil {
		return nil
	}
	delta := *r.PriorRank - *r.Rank
	return &delta
}
