package admission

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// localLimiter limits within this process, for the time when Redis cannot be reached. It holds at most max keys: when
// the young half is full it becomes the old one, and the old one is forgotten. A key that is used stays; one that is
// forgotten starts afresh, which lets too many through rather than too few.
type localLimiter struct {
	mu         sync.Mutex
	max        int
	young, old map[string]*rate.Limiter
}

func newLocalLimiter(maxKeys int) *localLimiter {
	return &localLimiter{max: maxKeys, young: map[string]*rate.Limiter{}}
}

// allow takes one of perHour requests, if there is one.
func (l *localLimiter) allow(key string, perHour int, now time.Time) LimitState {
	perSecond := float64(perHour) / time.Hour.Seconds()
	lim := l.get(key, perHour)
	allowed := lim.AllowN(now, 1)
	tokens := lim.TokensAt(now)
	s := newLimitState(perHour, int(tokens), seconds((float64(perHour)-tokens)/perSecond), now)
	if allowed {
		return s
	}
	return s.limited(seconds((1 - tokens) / perSecond))
}

func (l *localLimiter) get(key string, perHour int) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lim, ok := l.young[key]; ok {
		return lim
	}
	lim, ok := l.old[key]
	if !ok {
		lim = rate.NewLimiter(rate.Limit(float64(perHour)/time.Hour.Seconds()), perHour)
	}
	if len(l.young) >= max(l.max/2, 1) {
		l.young, l.old = map[string]*rate.Limiter{}, l.young
	}
	l.young[key] = lim
	return lim
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
