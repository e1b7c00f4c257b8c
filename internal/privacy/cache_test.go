package privacy

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/testenv"
)

type cacheBundle struct {
	*Cache
	rdb   *redis.Client
	clock *clock.Manual
	user  uuid.UUID
}

func setupCache(t *testing.T, ttl time.Duration) *cacheBundle {
	t.Helper()
	rdb := testenv.Redis(t)
	c := clock.NewManual(time.Unix(1_800_000_000, 0))
	return &cacheBundle{Cache: NewCache(rdb, c, ttl), rdb: rdb, clock: c, user: uuid.New()}
}

func (b *cacheBundle) mustGet(t *testing.T) Entry {
	t.Helper()
	e, ok, err := b.Get(t.Context(), b.user)
	require.NoError(t, err)
	require.True(t, ok, "nothing is cached")
	return e
}

func TestPutKeepsTheNewerVersion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		held    string
		put     Entry
		written bool
	}{
		{"nothing there", "", Entry{1, activity.ModeSummary}, true},
		{"older there", "1:full", Entry{2, activity.ModeSummary}, true},
		{"same version there", "2:off", Entry{2, activity.ModeFull}, true},
		{"newer there", "3:summary", Entry{2, activity.ModeFull}, false},
		{"newer by a digit", "10:summary", Entry{9, activity.ModeFull}, false},
		{"large versions", "9007199254740991:off", Entry{9007199254740990, activity.ModeFull}, false},
		{"something else there", "rubbish", Entry{1, activity.ModeOff}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setupCache(t, 0)
			if tt.held != "" {
				require.NoError(t, b.rdb.Set(t.Context(), Key(b.shards, b.user), tt.held, 0).Err())
			}
			written, err := b.Put(t.Context(), b.user, tt.put)
			require.NoError(t, err)
			require.Equal(t, tt.written, written)
			want := tt.held
			if tt.written {
				want = tt.put.String()
				ttl := b.rdb.PTTL(t.Context(), Key(b.shards, b.user)).Val()
				require.Greater(t, ttl, 50*time.Second)
				require.LessOrEqual(t, ttl, DefaultTTL)
			}
			require.Equal(t, want, b.rdb.Get(t.Context(), Key(b.shards, b.user)).Val())
		})
	}
}

func TestFillOnlyWhereThereIsNothing(t *testing.T) {
	t.Parallel()
	b := setupCache(t, 0)
	filled, err := b.Fill(t.Context(), b.user, Entry{5, activity.ModeSummary}, b.clock.Now())
	require.NoError(t, err)
	require.True(t, filled)

	filled, err = b.Fill(t.Context(), b.user, Entry{9, activity.ModeFull}, b.clock.Now())
	require.NoError(t, err)
	require.False(t, filled, "a fill never overwrites, whatever its version")
	require.Equal(t, Entry{5, activity.ModeSummary}, b.mustGet(t))
	require.Greater(t, b.rdb.PTTL(t.Context(), Key(b.shards, b.user)).Val(), time.Duration(0), "an entry that is filled expires")
}

// A filler that was stalled for longer than the entry of a change lives must not bring the mode before it back.
func TestFillRefusesWhatWasReadTooLongAgo(t *testing.T) {
	t.Parallel()
	b := setupCache(t, 0)
	readAt := b.clock.Now()
	b.clock.Advance(DefaultTTL/2 + time.Millisecond)
	filled, err := b.Fill(t.Context(), b.user, Entry{1, activity.ModeFull}, readAt)
	require.NoError(t, err)
	require.False(t, filled)

	pipe := b.rdb.Pipeline()
	b.QueueFill(t.Context(), pipe, b.user, Entry{1, activity.ModeFull}, readAt)
	require.Zero(t, pipe.Len())
	b.QueueFill(t.Context(), pipe, b.user, Entry{1, activity.ModeFull}, b.clock.Now())
	require.Equal(t, 1, pipe.Len())
	_, err = pipe.Exec(t.Context())
	require.NoError(t, err)
	require.Equal(t, Entry{1, activity.ModeFull}, b.mustGet(t))
}

func TestEntriesExpire(t *testing.T) {
	t.Parallel()
	b := setupCache(t, 20*time.Millisecond)
	_, err := b.Put(t.Context(), b.user, Entry{1, activity.ModeSummary})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, ok, err := b.Get(t.Context(), b.user)
		return err == nil && !ok
	}, 5*time.Second, 5*time.Millisecond)
}

// Writers and fillers in any order: what remains is the newest that was put.
func TestConcurrentPutsAndFills(t *testing.T) {
	t.Parallel()
	b := setupCache(t, 0)
	modes := []activity.Mode{activity.ModeFull, activity.ModeSummary, activity.ModeOff}
	const rounds, versions = 40, 8
	for round := range rounds {
		base := int64(round * versions)
		_, err := b.Put(t.Context(), b.user, Entry{base, activity.ModeSummary})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for _, i := range rand.Perm(versions) {
			e := Entry{base + int64(i), modes[i%len(modes)]}
			wg.Go(func() {
				if _, err := b.Put(t.Context(), b.user, e); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if filled, err := b.Fill(t.Context(), b.user, Entry{base - 1, activity.ModeFull}, b.clock.Now()); err != nil || filled {
					t.Error("a fill overwrote", err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, base+versions-1, b.mustGet(t).Version)
	}
}

func TestGetOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	b := setupCache(t, 0)
	require.NoError(t, b.rdb.Close())
	_, _, err := b.Get(t.Context(), b.user)
	require.ErrorIs(t, err, redis.ErrClosed)
	_, err = b.Put(t.Context(), b.user, Entry{1, activity.ModeOff})
	require.ErrorIs(t, err, redis.ErrClosed)
	_, err = b.Fill(t.Context(), b.user, Entry{1, activity.ModeOff}, b.clock.Now())
	require.ErrorIs(t, err, redis.ErrClosed)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", ":", "full", "1", "1:", ":full", "1:Full", "1:full ", " 1:full", "-1:full", "+1:full",
		"1.0:full", "1:full:2", "9223372036854775808:full", "0x1:full", "1_0:full"} {
		_, ok := Parse(s)
		require.False(t, ok, "%q", s)
	}
	e, ok := Parse("9223372036854775807:off")
	require.True(t, ok)
	require.Equal(t, Entry{9223372036854775807, activity.ModeOff}, e)
}

func FuzzParse(f *testing.F) {
	f.Add("7:summary")
	f.Add("07:full")
	f.Add("x:off")
	f.Fuzz(func(t *testing.T, s string) {
		e, ok := Parse(s)
		if !ok {
			return
		}
		again, ok := Parse(e.String())
		require.True(t, ok)
		require.Equal(t, e, again)
		require.GreaterOrEqual(t, e.Version, int64(0))
	})
}
