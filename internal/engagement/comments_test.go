package engagement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/activity"
	"github.com/commma/commma/internal/engagement"
)

func TestComments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, ada := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	s := b.mustSessions(t, owner, 1)[0]
	var want []string
	for i := range 7 {
		author := []uuid.UUID{owner, ada}[i%2] // on one's own session too
		c, total, err := b.Comment(t.Context(), author, s, fmt.Sprintf("  comment %d\r\n", i))
		require.NoError(t, err)
		require.Equal(t, int64(i+1), total)
		require.Equal(t, fmt.Sprintf("comment %d", i), c.Body)
		want = append(want, c.Body)
	}
	for limit := 1; limit <= 8; limit++ {
		var got []string
		for after := (*engagement.Cursor)(nil); ; {
			page, err := b.Comments(t.Context(), uuid.Nil, s, after, limit)
			require.NoError(t, err)
			require.Equal(t, int64(7), page.Total)
			for _, c := range page.Comments {
				got = append(got, c.Body)
			}
			if page.Next == nil {
				break
			}
			parsed, err := engagement.ParseCursor(page.Next.String())
			require.NoError(t, err)
			after = &parsed
		}
		require.Equal(t, want, got, "pages of %d", limit)
	}
	b.requireExact(t)
	require.Equal(t, int64(7), b.counts(t, s).Comments)
}

func TestDeleteComment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, ada, bob := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	s := b.mustSessions(t, owner, 1)[0]
	first, second := b.mustComment(t, ada, s, "x"), b.mustComment(t, ada, s, "y")
	require.ErrorIs(t, b.DeleteComment(t.Context(), bob, first.ID), engagement.ErrNotYours)
	for _, off := range []uuid.UUID{owner, ada} {
		require.NoError(t, b.accounts.ChangeMode(t.Context(), off, activity.ModeOff))
		require.ErrorIs(t, b.DeleteComment(t.Context(), bob, first.ID), engagement.ErrNotFound, "bob does not see it")
		require.NoError(t, b.accounts.ChangeMode(t.Context(), off, activity.ModeFull))
	}
	require.NoError(t, b.DeleteComment(t.Context(), ada, first.ID))
	require.ErrorIs(t, b.DeleteComment(t.Context(), ada, first.ID), engagement.ErrNotFound)
	require.NoError(t, b.DeleteComment(t.Context(), owner, second.ID), "the owner of the session may")
	b.requireExact(t)
	require.Zero(t, b.counts(t, s).Comments)
}

func TestCommentsAndModes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, ada := b.mustUser(t, activity.ModeFull), b.mustUser(t, activity.ModeFull)
	s := b.mustSessions(t, owner, 1)[0]
	b.mustComment(t, ada, s, "from ada")
	list := func(viewer uuid.UUID) (int, error) {
		page, err := b.Comments(t.Context(), viewer, s, nil, 10)
		return len(page.Comments), err
	}
	require.NoError(t, b.accounts.ChangeMode(t.Context(), ada, activity.ModeOff))
	_, _, err := b.Comment(t.Context(), ada, s, "more")
	require.ErrorIs(t, err, engagement.ErrOff)
	for viewer, want := range map[uuid.UUID]int{uuid.Nil: 0, owner: 0, ada: 1} {
		n, err := list(viewer)
		require.NoError(t, err)
		require.Equal(t, want, n, "who is on off is shown to nobody else")
	}
	bob := b.mustUser(t, activity.ModeFull)
	require.NoError(t, b.accounts.ChangeMode(t.Context(), owner, activity.ModeOff))
	_, _, err = b.Comment(t.Context(), bob, s, "hello?")
	require.ErrorIs(t, err, engagement.ErrNotFound)
	_, _, err = b.Comment(t.Context(), owner, s, "myself")
	require.ErrorIs(t, err, engagement.ErrOff)
	_, err = list(bob)
	require.ErrorIs(t, err, engagement.ErrNotFound)
	_, err = list(owner)
	require.NoError(t, err)
	_, err = b.Share(t.Context(), s)
	require.ErrorIs(t, err, engagement.ErrNotFound)
	_, _, err = b.Comment(t.Context(), bob, uuid.New(), "x")
	require.ErrorIs(t, err, engagement.ErrNotFound)
	b.requireExact(t)
}

func TestBodiesAreStoredAsPlainText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.mustSessions(t, b.mustUser(t, activity.ModeFull), 1)[0]
	ada := b.mustUser(t, activity.ModeFull)
	long := strings.Repeat("é", 2000)
	for in, want := range map[string]string{
		"a\x00b\x1b[31mc\u0085d\u007f": "ab[31mcd",
		"\t one\r\ntwo\rthree\u2028x ": "one\ntwo\nthree\nx",
		"<script>&amp;":                "<script>&amp;",
		"\u202eevil\u2066":             "evil",
		"a\xffb":                       "a\ufffdb",
		" \n " + long + " \x00":        long,
		"👩‍👩‍👧":                        "👩‍👩‍👧",
	} {
		require.Equal(t, want, b.mustComment(t, ada, s, in).Body)
	}
	for _, bad := range []string{"", " \n\t", "\x00\x01", "\u202e", long + "x", strings.Repeat("\x00", 1<<20)} {
		_, _, err := b.Comment(t.Context(), ada, s, bad)
		require.ErrorIs(t, err, engagement.ErrBadBody)
	}
	page, err := b.Comments(t.Context(), ada, s, nil, 100)
	require.NoError(t, err)
	require.Len(t, page.Comments, 7)
}

func TestCursors(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "x", "!", "fHw", "MXx4", "LTk5OTk5OTk5OTk5OTk5OTk5OTl8M2YwZTZhM2QtN2IwYi00YjdkLThkNDMtNWU1ZjY0YjFiM2Ey"} {
		_, err := engagement.ParseCursor(bad)
		require.ErrorIs(t, err, engagement.ErrBadCursor, bad)
	}
}
