package leaderboard

import (
	"bytes"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/commma/commma/internal/calendar"
)

func TestKeysNeverCollide(t *testing.T) {
	t.Parallel()
	span := calendar.SpanOf(calendar.PeriodWeek, calendar.Date(2026, time.November, 25))
	seen := map[string]string{}
	for _, lang := range []string{"", "c", "c++", "c#", "c%2B%2B", "}", "}:z", "{x}", "a:b", "ü", "objective-c++"} {
		b := Board{Span: span, Lang: lang}
		k := b.keys()
		require.NotContains(t, seen, k.scores, "%q and %q", lang, seen[k.scores])
		seen[k.scores] = lang
		// The first { and the first } after it delimit what Cluster hashes: the whole tag must lie between them.
		for _, key := range []string{k.scores, k.members, k.building, k.notes, b.aside("0").scores, b.aside("0").members} {
			require.Equal(t, b.tag(), key[:strings.IndexByte(key, '}')+1])
		}
	}
	require.Equal(t, "{lb:week:2026-11-23:c%2B%2B}:z", Board{Span: span, Lang: "c++"}.keys().scores)
}

func TestMemberRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[^\x00]{0,12}`)
		day := rapid.Ptr(rapid.Map(rapid.Int32(), func(n int32) calendar.Day { return calendar.Day(n) }), true)
		f := Facts{
			Handle: text.Draw(t, "handle"), AvatarURL: text.Draw(t, "avatar"), TopLang: text.Draw(t, "top"),
			StreakFirst: day.Draw(t, "first"), StreakLast: day.Draw(t, "last"), Zone: text.Draw(t, "zone"),
		}
		version := rapid.Int64Min(0).Draw(t, "version")
		gotVersion, got, err := unpackMember(packMember(version, f))
		require.NoError(t, err)
		require.Equal(t, version, gotVersion)
		require.Equal(t, f, got)
	})
	for _, bad := range []string{"", "7\x00", "x\x00\x00\x00\x00\x00\x00", "7\x00\x00\x00\x00day\x00\x00"} {
		_, _, err := unpackMember(bad)
		require.ErrorIs(t, err, errBadMember, "%q", bad)
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := place{seconds: rapid.Int64Range(1, maxSeconds).Draw(t, "seconds")}
		copy(p.user[:], rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x80, 0xff}), 0, 16).Draw(t, "user"))
		got, err := parseCursor(p.cursor())
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
	p := place{seconds: 5_000_000_000, user: uuid.MustParse("0190c0de-0000-7000-8000-00000000abcd")}
	for _, bad := range []string{
		"x", "====", p.cursor() + "A", p.cursor()[1:], p.cursor() + "=", "😀", p.cursor()[:8],
		cursorEncoding.EncodeToString([]byte{0, 0, 0, 0, 0, 0, 0, 7, 1, 0}), // the one that says the same is shorter
		place{seconds: 0}.cursor(), place{seconds: maxSeconds + 1}.cursor(), place{seconds: -1}.cursor(),
	} {
		_, err := Query{Cursor: bad}.request()
		require.ErrorIs(t, err, ErrBadCursor, bad)
	}
}

// TestCursorsLieBetweenTwoPlaces, so that nobody is seen twice or missed, and give hardly anything of an id away.
func TestCursorsLieBetweenTwoPlaces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 0x7f, 0x80, 0xff}), 16, 16)
		last, next := uuid.UUID(id.Draw(t, "last")), uuid.UUID(id.Draw(t, "next"))
		if last == next {
			return
		}
		if bytes.Compare(last[:], next[:]) < 0 {
			last, next = next, last
		}
		p := between(place{7, last}, place{7, next})
		require.EqualValues(t, 7, p.seconds)
		require.LessOrEqual(t, bytes.Compare(p.user[:], last[:]), 0, "who comes after last comes after it")
		require.Positive(t, bytes.Compare(p.user[:], next[:]), "next comes after it")
		n, both := new(big.Int).SetBytes(p.user[:]), new(big.Int).SetBytes(next[:])
		differ := new(big.Int).Xor(both, new(big.Int).SetBytes(last[:])).BitLen() - 1
		require.EqualValues(t, differ, n.TrailingZeroBits(), "not a bit of last beyond the one that differs")
		require.Equal(t, place{seconds: 7}, between(place{7, last}, place{6, next}), "nothing of it")
	})
}

func TestQueryBoundsItsLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-5: 1, 0: 1, 1: 1, 100: 100, 101: 100, 1 << 40: 100} {
		r, err := Query{Limit: limit}.request()
		require.NoError(t, err)
		require.Equal(t, want, r.limit)
	}
}

func TestSetRanksSharesThem(t *testing.T) {
	t.Parallel()
	rank := func(start, above int64, seconds ...int64) (ranks []int64) {
		rows := make([]standing, len(seconds))
		for i, s := range seconds {
			rows[i].seconds = s
		}
		setRanks(rows, start, above)
		for _, r := range rows {
			ranks = append(ranks, r.rank)
		}
		return ranks
	}
	require.Equal(t, []int64{1, 2, 2, 4}, rank(0, 0, 9, 5, 5, 1))
	// A page that begins inside a tie: three places before it, of which one has more seconds.
	require.Equal(t, []int64{2, 2, 6, 7}, rank(3, 1, 5, 5, 3, 2))
}

func TestWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, before, after, wantBefore, wantAfter int }{
		{5, 9, 9, 2, 2}, {4, 9, 9, 2, 1}, {5, 0, 9, 0, 4}, {5, 1, 9, 1, 3}, {5, 9, 0, 4, 0}, {5, 9, 1, 3, 1},
		{5, 1, 1, 1, 1}, {1, 9, 9, 0, 0}, {2, 9, 9, 1, 0},
	} {
		before, after := window(c.limit, c.before, c.after)
		require.Equal(t, [2]int{c.wantBefore, c.wantAfter}, [2]int{before, after}, "%+v", c)
	}
}

func TestPublishedSpansReachOneFurtherBack(t *testing.T) {
	t.Parallel()
	for d := range 800 {
		now := calendar.Date(2026, time.January, 1+d).Midnight()
		published := Published(now)
		// Whatever a process keeps whose clock is a day behind or a minute ahead is published to.
		for _, other := range []time.Time{now.Add(-24 * time.Hour), now, now.Add(time.Minute)} {
			for _, s := range calendar.Kept(other) {
				require.True(t, slices.Contains(published, s), "%v at %v", s, other)
			}
		}
		for _, s := range published {
			require.Equal(t, s.Period == calendar.PeriodAllTime, Board{Span: s}.expires() == 0)
		}
	}
}

// TestBoardsEndWhenPublishersStopWritingThem, to the second: one that outlived it would be whole and out of date.
func TestBoardsEndWhenPublishersStopWritingThem(t *testing.T) {
	t.Parallel()
	month := Board{Span: calendar.SpanOf(calendar.PeriodMonth, calendar.Date(2026, time.January, 31))}
	require.Equal(t, calendar.Date(2026, time.April, 1).Midnight().Unix(), month.expires())
	for d := range 800 {
		for _, p := range calendar.Periods[:3] {
			b := Board{Span: calendar.SpanOf(p, calendar.Date(2026, time.January, 1+d))}
			end := time.Unix(b.expires(), 0)
			require.Contains(t, Published(end.Add(-time.Second)), b.Span)
			require.NotContains(t, Published(end), b.Span)
		}
	}
}
