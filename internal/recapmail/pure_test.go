package recapmail

import (
	"bytes"
	"context"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/calendar"
	"github.com/commma/commma/internal/clock"
	"github.com/commma/commma/internal/recap"
	"github.com/commma/commma/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var (
	testNow  = time.Date(2026, 6, 23, 9, 30, 0, 0, time.UTC)
	testWeek = recap.WeekOf(calendar.Date(2026, 6, 15))
)

func mustLetter(t *testing.T) Letter {
	t.Helper()
	l, err := ParseLetter("Commma <recap@example.org>", "https://api.example.org/")
	require.NoError(t, err)
	return l
}

func TestParseLetter(t *testing.T) {
	t.Parallel()
	require.Equal(t, "https://api.example.org", mustLetter(t).Base)
	for _, bad := range [][2]string{{"", "https://a"}, {"nobody", "https://a"}, {"a@example.org", "a"}, {"a@example.org", "ftp://a"}, {"a@example.org", "https://a?b"}} {
		_, err := ParseLetter(bad[0], bad[1])
		require.Error(t, err, bad)
	}
}

// The mail has what mail programs need to stop it by one click, both forms of its text, and an id that follows from user and
// week alone.
func TestCompose(t *testing.T) {
	t.Parallel()
	rank := int64(7)
	r := &recap.Addressed{Email: "ada@example.org", Recap: recap.Recap{
		UserID: uuid.New(), Handle: "ada", Week: testWeek, AsOf: testNow, Seconds: 5400, Rank: &rank, Sessions: 2,
		Langs: []recap.Lang{{Key: "go", Seconds: 3600}, {Key: "<script>", Seconds: 1800}},
	}}
	for i := range r.Days {
		r.Days[i].Date = testWeek.Start() + calendar.Day(i)
	}
	l, link := mustLetter(t), "https://api.example.org"+UnsubscribePath+"?token=abc"
	var first, second bytes.Buffer
	for i, w := range []io.Writer{&first, &second} {
		m, err := l.Compose(r, link, testNow.Add(time.Duration(i)*time.Hour))
		require.NoError(t, err)
		_, err = m.WriteTo(w)
		require.NoError(t, err)
	}
	parsed, err := netmail.ReadMessage(&first)
	require.NoError(t, err)
	again, err := netmail.ReadMessage(&second)
	require.NoError(t, err)
	h := parsed.Header
	require.Equal(t, "<"+l.MessageID(testWeek, r.UserID)+">", h.Get("Message-ID"))
	require.Equal(t, h.Get("Message-ID"), again.Header.Get("Message-ID"))
	require.NotContains(t, h.Get("Message-ID"), r.UserID.String())
	require.NotEqual(t, l.MessageID(testWeek, r.UserID), l.MessageID(testWeek.Previous(), r.UserID))
	require.NotEqual(t, l.MessageID(testWeek, r.UserID), l.MessageID(testWeek, uuid.New()))
	require.Equal(t, "<"+link+">", h.Get("List-Unsubscribe"))
	require.Equal(t, "List-Unsubscribe=One-Click", h.Get("List-Unsubscribe-Post"))
	require.Equal(t, "<ada@example.org>", h.Get("To"))
	require.Equal(t, "Your week 15 June to 21 June: 1 h 30 min", h.Get("Subject"))
	_, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	require.NoError(t, err)
	parts, kinds := multipart.NewReader(parsed.Body, params["boundary"]), []string{}
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF { //nolint:errorlint // by its documentation
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		require.NoError(t, err)
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		require.NoError(t, err)
		kinds = append(kinds, kind)
		for _, want := range []string{"Hello ada", "You coded 1 h 30 min", "number 7 of the week", "Wednesday", "Go", "23 June 2026, 09:30 UTC", link} {
			require.Contains(t, string(text), want, kind)
		}
		require.Equal(t, kind == "text/plain", strings.Contains(string(text), "<script>"), "escaped in HTML")
	}
	require.Equal(t, []string{"text/plain", "text/html"}, kinds)
}

func TestWaits(t *testing.T) {
	t.Parallel()
	r := Retries{}.withDefaults()
	for before, want := range map[int]time.Duration{0: 30 * time.Second, 1: time.Minute, 2: 2 * time.Minute, 5: 15 * time.Minute, 1000: 15 * time.Minute} {
		require.Equal(t, want, r.wait(before), before)
	}
	temporary := verdict{charged: true, reply: "451"}
	require.Equal(t, Pending, temporary.report(Claimed{Attempts: 6}, 1, r).Outcome)
	require.Equal(t, GivenUp, temporary.report(Claimed{Attempts: 7}, 1, r).Outcome)
	require.Equal(t, Refused, verdict{outcome: Refused, charged: true}.report(Claimed{}, 1, r).Outcome)
}

func TestRate(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(testNow)
	r := newRate(c, 4)
	require.Zero(t, r.take(c.Now()))
	require.Equal(t, 250*time.Millisecond, r.take(c.Now()))
	require.Equal(t, 500*time.Millisecond, r.take(c.Now()))
	require.Equal(t, 250*time.Millisecond, r.take(testNow.Add(500*time.Millisecond)))
	require.Zero(t, r.take(testNow.Add(time.Hour)), "what was not used is not made up for")
	require.Equal(t, 250*time.Millisecond, r.take(testNow.Add(time.Hour)))
	r.giveBack()
	require.Equal(t, 250*time.Millisecond, r.take(testNow.Add(time.Hour)), "the next has it")
	r.giveBack()
	require.Zero(t, r.take(testNow.Add(2*time.Hour)), "and it is not kept")
	require.Equal(t, 250*time.Millisecond, r.take(testNow.Add(2*time.Hour)))
	newRate(c, 0).giveBack()
	require.NoError(t, newRate(c, 0).wait(t.Context()))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, newRate(c, 0).wait(over))
}

func TestSendable(t *testing.T) {
	t.Parallel()
	over := testWeek.OverAt()
	require.ErrorIs(t, sendable(testWeek, over.Add(-time.Second)), ErrTooEarly)
	require.ErrorContains(t, sendable(testWeek, over.Add(-time.Second)), "2026-06-22T12:15:00Z")
	require.NoError(t, sendable(testWeek, over))
	require.NoError(t, sendable(testWeek, over.AddDate(0, 0, 56)))
	require.ErrorIs(t, sendable(testWeek, over.AddDate(0, 0, 57)), ErrTooLate)
}
