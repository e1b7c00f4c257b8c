package admission

import (
	"time"

	"golang.org/x/time/rate"
)

// localLimiter limits within this process, for the time when Redis cannot be reached. A key that was forgotten starts
// afresh, which lets too many through rather than too few.
type localLimiter struct{ *recent[*rate.Limiter] }

func newLocalLimiter(maxKeys int) localLimiter {
	return localLimiter{newRecent[*rate.Limiter](maxKeys)}
}

// allow takes one of perHour requests, if there is one.
func (l localLimiter) allow(key string, perHour int, now time.Time) LimitState {
	perSecond := float64(perHour) / time.Hour.Seconds()
	lim := l.getOr(key, func() *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), perHour) })
	allowed := lim.AllowN(now, 1)
	tokens := lim.TokensAt(now)
	s := newLimitState(perHour, int(tokens), seconds((float64(perHour)-tokens)/perSecond), now)
	if allowed {
		return s
	}
	return s.limited(seconds((1 - tokens) / perSecond))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
