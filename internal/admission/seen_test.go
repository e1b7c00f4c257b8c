package admission

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/lastseen"
	"github.com/commma/commma/internal/privacy"
	"github.com/commma/commma/internal/writebehind"
)

// noted is when the user was noted as seen, in milliseconds; 0 for never.
func (b *bundle) noted(t *testing.T, u user) int64 {
	t.Helper()
	text := b.rdb.HGet(t.Context(), writebehind.KeysOf(lastseen.Name, b.shards.Of(u.id)).Buf, u.id.String()).Val()
	if text == "" {
		return 0
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return ms
}

func (b *bundle) dropMarker(t *testing.T, u user) {
	t.Helper()
	n, err := b.rdb.Del(t.Context(), "seen:"+b.shards.Tag(u.id)+":"+u.id.String()).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), n, "a touch leaves a marker")
}

func TestAdmissionNotesTheUserAsSeen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	u := b.mustUser(t, activity.ModeSummary)
	b.mustAdmit(t, u)
	first := b.clock.Now().UnixMilli()
	require.Equal(t, first, b.noted(t, u), "by the step that fills what was not cached")
	ttl := b.rdb.TTL(t.Context(), "seen:"+b.shards.Tag(u.id)+":"+u.id.String()).Val()
	require.Greater(t, ttl, 4*time.Minute)
	require.LessOrEqual(t, ttl, 5*time.Minute)

	b.clock.Advance(time.Minute)
	requireOneTrip(t, b, u)
	require.Equal(t, first, b.noted(t, u), "once in five minutes")
	b.dropMarker(t, u)
	requireOneTrip(t, b, u)
	require.Equal(t, first+60_000, b.noted(t, u), "in the round trip of the admission")

	b.dropMarker(t, u)
	b.clock.Advance(-time.Hour)
	b.mustAdmit(t, u)
	require.Equal(t, first+60_000, b.noted(t, u), "a process whose clock is behind moves nothing backwards")
	require.Empty(t, b.seen.failures)
}

// Whoever only knows a user's id does not make the user look active.
func TestAWrongTokenIsNotSeen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	u := b.mustUser(t, activity.ModeFull)
	_, err := b.ask(t, u.otherSecret(), ScopeRead)
	requireCode(t, err, CodeUnauthorized)
	require.Zero(t, b.noted(t, u))
	b.mustAdmit(t, u)
	b.dropMarker(t, u)
	b.clock.Advance(time.Minute)
	_, err = b.ask(t, u.otherSecret(), ScopeRead)
	requireCode(t, err, CodeUnauthorized)
	require.Equal(t, b.clock.Now().Add(-time.Minute).UnixMilli(), b.noted(t, u))
}

func TestAUserOnOffIsNotSeen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	u := b.mustUser(t, activity.ModeOff)
	for range 2 {
		b.mustAdmit(t, u)
		require.Zero(t, b.noted(t, u))
	}
	// A mode that is not cached is not known, so nothing is noted until it is.
	v := b.mustUser(t, activity.ModeFull)
	h := HashToken(v.token)
	require.NoError(t, b.rdb.Set(t.Context(), authKey(b.shards, v.id), h[:], 0).Err())
	b.mustAdmit(t, v)
	require.Zero(t, b.noted(t, v))
	b.FillMode(t.Context(), v.id, privacy.Entry{Version: 1, Mode: activity.ModeFull}, b.clock.Now())
	require.Equal(t, b.clock.Now().UnixMilli(), b.noted(t, v))
}
