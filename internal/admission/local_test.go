package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLocalLimiter(t *testing.T) {
	t.Parallel()
	l := newLocalLimiter(100)
	now := time.Unix(1_800_000_000, 0)
	require.Equal(t, LimitState{Limit: 2, Remaining: 1, ResetAt: now.Add(30 * time.Minute)}, l.allow("a", 2, now))
	require.Equal(t, LimitState{Limit: 2, ResetAt: now.Add(time.Hour)}, l.allow("a", 2, now))
	limited := LimitState{Limit: 2, ResetAt: now.Add(time.Hour), RetryAfter: 30 * time.Minute, Limited: true}
	require.Equal(t, limited, l.allow("a", 2, now))
	require.False(t, l.allow("b", 2, now).Limited)

	// One millisecond before the token is back, and when it is.
	s := l.allow("a", 2, now.Add(30*time.Minute-time.Millisecond))
	require.True(t, s.Limited)
	require.Equal(t, time.Second, s.RetryAfter, "rounded up, at least one second")
	require.False(t, l.allow("a", 2, now.Add(30*time.Minute)).Limited)
}

func TestLocalLimiterForgetsTheUnused(t *testing.T) {
	t.Parallel()
	const size = 10
	l := newLocalLimiter(size)
	now := time.Unix(1_800_000_000, 0)
	require.False(t, l.allow("kept", 1, now).Limited)
	for i := range 100 * size {
		require.False(t, l.allow(fmt.Sprint(i), 1, now).Limited)
		require.True(t, l.allow("kept", 1, now).Limited, "one that is used stays")
		require.LessOrEqual(t, len(l.young)+len(l.old), size)
	}
	require.False(t, l.allow("0", 1, now).Limited, "forgotten, and let through again")
}

func TestCeilSecond(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Second, time.Second: time.Second, time.Second + 1: 2 * time.Second, -time.Second: 0,
	} {
		if d < 0 {
			require.LessOrEqual(t, ceilSecond(d), want)
			continue
		}
		require.Equal(t, want, ceilSecond(d))
	}
	require.Equal(t, time.Second, LimitState{}.limited(0).RetryAfter)
}

func TestRecentForgetsTheUnused(t *testing.T) {
	t.Parallel()
	const size = 10
	r := newRecent[int](size)
	r.set("kept", 7)
	for i := range 100 * size {
		r.set(fmt.Sprint(i), i)
		v, ok := r.get("kept")
		require.True(t, ok, "one that is asked for stays")
		require.Equal(t, 7, v)
		require.LessOrEqual(t, len(r.young)+len(r.old), size)
	}
	_, ok := r.get("0")
	require.False(t, ok)
	r.set("kept", 8)
	v, _ := r.get("kept")
	require.Equal(t, 8, v)
}
