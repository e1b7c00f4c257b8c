package tests

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/clock"
)

// secret is a random text that nothing else contains, in lower case as languages are kept, with all forms in which it
// could be written down.
type secret struct {
	text  string
	forms [][]byte
}

func newSecret() *secret {
	const letters = "bcdfghjkmnpqrstvwxz23456789"
	text := make([]byte, 18)
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	return secretOf(string(text))
}

// secretOf is a text with all its forms.
func secretOf(text string) *secret {
	s := &secret{text: text}
	var percent, escaped strings.Builder
	for _, b := range []byte(text) {
		fmt.Fprintf(&percent, "%%%02x", b)
		fmt.Fprintf(&escaped, `\u%04x`, b)
	}
	add := func(form string) {
		s.forms = append(s.forms, []byte(form))
		if upper := strings.ToUpper(form); upper != form {
			s.forms = append(s.forms, []byte(upper))
		}
	}
	add(s.text)
	add(fmt.Sprintf("%x", text))
	add(percent.String())
	add(escaped.String())
	for _, order := range []func(u uint16) []byte{
		func(u uint16) []byte { return []byte{byte(u), byte(u >> 8)} },
		func(u uint16) []byte { return []byte{byte(u >> 8), byte(u)} },
	} {
		var wide []byte
		for _, u := range utf16.Encode([]rune(s.text)) {
			wide = append(wide, order(u)...)
		}
		s.forms = append(s.forms, wide)
	}
	// In base64 a text looks otherwise at each of three offsets; what is the same whatever surrounds it is looked for.
	for offset := range 3 {
		inner := base64.StdEncoding.EncodeToString(append(make([]byte, offset), text...))
		first := (offset*8 + 5) / 6
		s.forms = append(s.forms, []byte(inner[first:(offset+len(text))*8/6]))
	}
	return s
}

// in says whether some bytes hold the secret in any form.
func (s *secret) in(text []byte) bool {
	for _, form := range s.forms {
		if bytes.Contains(text, form) {
			return true
		}
	}
	return false
}

// confidant is an editor that plants the secret wherever it can.
type confidant struct {
	*secret
	base   string
	client *http.Client
	token  string
	modes  []string // those that the user goes through; none for who stays
	turns  int
	sent   int // events
	leaks  []string
}

// eventsPerSession is how many events a session uploads at least, 40 as a rule.
const eventsPerSession = 40

// session uploads a session of batches, some of them broken, and asks this and that.
func (c *confidant) session(ctx context.Context) error {
	left := eventsPerSession
	at := clock.System{}.Now().UnixMilli() - (2*time.Hour + time.Duration(rand.IntN(20*24*3600))*time.Second).Milliseconds()
	for left > 0 {
		n := min(left, 8+rand.IntN(eventsPerSession))
		body := c.batch(n, &at)
		status, err := c.post(ctx, body, rand.IntN(4) == 0)
		// What fails in Postgres is answered with 500, and was made to fail.
		if err != nil || status != http.StatusAccepted && status != http.StatusInternalServerError {
			return fmt.Errorf("upload: %d %w", status, err)
		}
		if status == http.StatusAccepted {
			left -= n
			c.sent += n
		}
	}
	if err := c.change(ctx); err != nil {
		return err
	}
	if rand.IntN(2) == 0 {
		if _, err := c.post(ctx, c.broken(), false); err != nil {
			return err
		}
	}
	if err := c.look(ctx); err != nil {
		return err
	}
	if rand.IntN(8) == 0 {
		wrong := []string{c.text, "cmm_" + c.text, c.token[:len(c.token)-len(c.text)] + c.text}[rand.IntN(3)]
		if _, err := c.do(ctx, http.MethodPost, "/v1/ingest", wrong, []byte(`{"events":[]}`), nil); err != nil {
			return err
		}
	}
	return nil
}

// change goes over to another mode, while what was uploaded may still be hot.
func (c *confidant) change(ctx context.Context) error {
	if len(c.modes) == 0 {
		return nil
	}
	body := fmt.Appendf(nil, `{"privacy":%q}`, c.modes[c.turns%len(c.modes)])
	c.turns++
	status, err := c.do(ctx, http.MethodPatch, "/v1/me", c.token, body, nil)
	if err != nil || status != http.StatusOK && status != http.StatusServiceUnavailable {
		return fmt.Errorf("change mode: %d %w", status, err)
	}
	return nil
}

// look reads, and asks for what is not there by the name of the secret, and tries to change what cannot be.
func (c *confidant) look(ctx context.Context) error {
	for _, path := range []string{
		"/v1/me", "/v1/sessions/%s", "/%s?q=%s", "/v1/users/%s", "/v1/users/%s/sessions", "/v1/sessions?cursor=%s&limit=%s",
		"/v1/leaderboard?period=%s", "/v1/leaderboard?period=day&lang=%s", "/v1/leaderboard?period=day&starts_on=%s&cursor=%s&around=%s",
	} {
		if rand.IntN(8) != 0 {
			continue
		}
		if _, err := c.do(ctx, http.MethodGet, strings.ReplaceAll(path, "%s", c.text), c.token, nil, nil); err != nil {
			return err
		}
	}
	if rand.IntN(8) == 0 {
		field := []string{"privacy", "timezone"}[rand.IntN(2)]
		if _, err := c.do(ctx, http.MethodPatch, "/v1/me", c.token, fmt.Appendf(nil, `{%q:%q}`, field, c.text), nil); err != nil {
			return err
		}
	}
	return nil
}

// batch is an upload whose every free text holds the secret. Now and then an event makes its statement fail.
func (c *confidant) batch(n int, at *int64) []byte {
	var b bytes.Buffer
	b.WriteString(`{"events":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		*at += rand.Int64N(60_000)
		keystrokes := 1 + rand.IntN(500)
		if rand.IntN(400) == 0 {
			keystrokes = failingKeystrokes
		}
		lang := []string{"go", "TypeScript", c.text, " " + strings.ToUpper(c.text) + " lang", "x-" + c.text}[rand.IntN(5)]
		fmt.Fprintf(&b, `{"id":"%s","ts":%d,"lang":%q,"keystrokes":%d,"lines":1,"file":"/home/%s/%d.go","project":"p %s","key_freq":{"a":5,%q:3,"F12":1}`,
			uuid.NewString(), *at, lang, keystrokes, c.text, rand.IntN(50), c.text, c.text)
		switch rand.IntN(8) {
		case 0:
			fmt.Fprintf(&b, `,%q:%q,"note":{"deep":[%q,{"x":%q}]}`, c.text, c.text, c.text, c.text)
		case 1:
			fmt.Fprintf(&b, `,"git":"https://%s.example/%x"`, c.text, c.text)
		}
		b.WriteByte('}')
	}
	// And events that are refused, which say why, and not what.
	for range rand.IntN(3) {
		fmt.Fprintf(&b, `,{"id":%q,"ts":1},{"id":"%s","ts":%q},%q,{"id":"%s","ts":0,"file":[%q]}`,
			c.text, uuid.NewString(), c.text, c.text, uuid.NewString(), c.text)
	}
	fmt.Fprintf(&b, `],"client":%q}`, c.text)
	return b.Bytes()
}

// broken is a body that is refused whole.
func (c *confidant) broken() []byte {
	bodies := []string{
		`{"events":[{"id":"` + c.text + `","file":"` + c.text,
		`{"events":"` + c.text + `"}`, `"` + c.text + `"`, c.text, `{"` + c.text + `":[]}`, `{"events":[],"` + c.text + `":1}`,
		`{"events":{"` + c.text + `":` + strings.Repeat(`{"`+c.text+`":`, 50) + `1`,
		strings.Repeat("[", 20_000) + c.text, `{"events":[` + c.text + `]}`, `{"events":[{"file":"` + c.text + `\x"}]}`,
	}
	return []byte(bodies[rand.IntN(len(bodies))])
}

func (c *confidant) post(ctx context.Context, body []byte, compress bool) (int, error) {
	header := http.Header{}
	switch {
	case compress:
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(body)
		_ = w.Close()
		body = packed.Bytes()
		header.Set("Content-Encoding", "gzip")
	case !json.Valid(body) && rand.IntN(2) == 0:
		header.Set("Content-Encoding", []string{"gzip", c.text}[rand.IntN(2)])
	}
	return c.do(ctx, http.MethodPost, "/v1/ingest", c.token, body, header)
}

// do sends a request with the secret in its headers, and notes an answer that repeats it.
func (c *confidant) do(ctx context.Context, method, path, token string, body []byte, header http.Header) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for _, name := range []string{"User-Agent", "X-Request-Id", "X-Forwarded-For", "X-Project", "Cookie", "Referer", "Traceparent", "Origin"} {
		req.Header.Set(name, "v-"+c.text)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if c.in(answer) || c.in(fmt.Append(nil, res.Header)) {
		c.leaks = append(c.leaks, fmt.Sprintf("%s %s: %d %s %s", method, path, res.StatusCode, res.Header, answer))
	}
	return res.StatusCode, err
}

// The search is known to find what is there.
func TestSecretIsFoundInAllItsForms(t *testing.T) {
	t.Parallel()
	s := newSecret()
	for _, text := range []string{
		s.text, strings.ToUpper(s.text), fmt.Sprintf("%x", s.text), fmt.Sprintf("%X", s.text),
		base64.StdEncoding.EncodeToString([]byte(s.text)), base64.RawURLEncoding.EncodeToString([]byte("/" + s.text + "/a.go")),
		base64.StdEncoding.EncodeToString([]byte("ab" + s.text + "yz")), base64.StdEncoding.EncodeToString([]byte("abcd" + s.text)),
	} {
		require.True(t, s.in([]byte("x"+text+"y")), text)
	}
	require.False(t, s.in([]byte(newSecret().text)))
}
