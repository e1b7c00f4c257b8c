package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/leaderboard"
	"github.com/commma/commma/internal/views"
)

func ifNoneMatch(tags string) option { return withHeader("If-None-Match", tags) }

// Who may keep an answer can ask whether it is still the same, and who may not cannot. A new read without admitViewer, and one
// whose 304 is not documented, is found here.
func TestPublicReadsHaveTags(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	tagged := 0
	eachOperation(t, func(t *testing.T, method, path string, op *openapi3.Operation) {
		needs, _ := secured(op)
		if method != http.MethodGet || needs {
			return
		}
		got := b.call(t, method, target(op, path), "")
		public, tag := got.header.Get("Cache-Control") == cachePublic, got.header.Get("ETag")
		require.Equal(t, public, tag != "", "%s", got.header)
		if !public {
			require.Contains(t, []string{cachePrivate, cacheNever}, got.header.Get("Cache-Control"))
			return
		}
		tagged++
		again := b.call(t, method, target(op, path), "", ifNoneMatch(tag))
		require.Equal(t, http.StatusNotModified, again.status)
		require.Empty(t, again.body)
		for _, h := range []http.Header{got.header, again.header} {
			for _, name := range []string{"X-Request-Id", "Content-Length", "Content-Type"} {
				h.Del(name)
			}
		}
		require.Equal(t, got.header, again.header, "all else is said as on an answer with a body")
	})
	require.GreaterOrEqual(t, tagged, 6)
}

func TestTagsAreComparedWeakly(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	tag := b.call(t, http.MethodGet, "/v1/leaderboard", "").header.Get("ETag")
	require.Regexp(t, `^W/"[A-Za-z0-9_-]{22}"$`, tag)
	for given, status := range map[string]int{
		tag: 304, tag[2:]: 304, `"x", W/"y,z" ,` + tag: 304, "*": 304,
		"": 200, `"x"`: 200, `W/"x"`: 200, tag[3 : len(tag)-1]: 200, tag + "x": 200,
	} {
		require.Equal(t, status, b.call(t, http.MethodGet, "/v1/leaderboard", "", ifNoneMatch(given)).status, given)
	}
	two := b.call(t, http.MethodGet, "/v1/leaderboard", "", ifNoneMatch(`"x"`), ifNoneMatch(tag))
	require.Equal(t, http.StatusNotModified, two.status)
}

// A page of an old board is computed for each request, so it is of another moment each time, and yet the same.
func TestAPageOfAnotherMomentIsTheSame(t *testing.T) {
	t.Parallel()
	at, seconds := time.Time{}, int64(60)
	b := setup(t, &fake{page: func(b leaderboard.Board, _ leaderboard.Query) (leaderboard.Page, error) {
		return leaderboard.Page{Board: b, UpdatedAt: at, Entries: []leaderboard.Entry{{Handle: "ada", Seconds: seconds, Rank: 1}}}, nil
	}})
	tag := func() string { return b.call(t, http.MethodGet, "/v1/leaderboard", "").header.Get("ETag") }
	at = b.clock.Now()
	first := tag()
	b.clock.Advance(time.Minute)
	require.NotEqual(t, first, tag(), "published a minute ago: it is not of this moment")
	at = b.clock.Now()
	require.Equal(t, first, tag())
	seconds++
	require.NotEqual(t, first, tag())
}

// A kept page is not shown any longer once a user on it has gone.
func TestATagEndsWithItsAnswer(t *testing.T) {
	t.Parallel()
	var entries []leaderboard.Entry
	b := setup(t, &fake{page: func(b leaderboard.Board, _ leaderboard.Query) (leaderboard.Page, error) {
		return leaderboard.Page{Board: b, UpdatedAt: testNow, Entries: entries}, nil
	}})
	entries = []leaderboard.Entry{{Handle: "ada", Seconds: 60, Rank: 1}}
	tag := b.call(t, http.MethodGet, "/v1/leaderboard", "").header.Get("ETag")
	entries = nil
	got := b.call(t, http.MethodGet, "/v1/leaderboard", "", ifNoneMatch(tag))
	require.Equal(t, http.StatusOK, got.status)
	require.NotContains(t, got.body, "ada")
	require.NotEqual(t, tag, got.header.Get("ETag"))
}

// Who asks whether a profile is still the same has looked at it.
func TestAPageThatIsTheSameIsViewed(t *testing.T) {
	t.Parallel()
	looks := 0
	b := setup(t, &fake{record: func(views.Viewer, views.Target) bool { looks++; return true }})
	tag := b.call(t, http.MethodGet, "/v1/users/ada", "").header.Get("ETag")
	got := b.call(t, http.MethodGet, "/v1/users/ada", "", ifNoneMatch(tag))
	require.Equal(t, http.StatusNotModified, got.status)
	require.Equal(t, "true", got.header.Get(headerRecorded))
	require.Equal(t, 2, looks)
}

// Without a validator a 404 may be kept by rules of thumb.
func TestNothingIsKeptUnlessItSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	for _, path := range []string{"/nowhere", "/health", "/readyz", "/metrics", "/docs/nothing"} {
		got := b.call(t, http.MethodGet, path, "")
		require.Equal(t, cacheNever, got.header.Get("Cache-Control"), path)
		require.Empty(t, got.header.Get("ETag"), path)
	}
}
