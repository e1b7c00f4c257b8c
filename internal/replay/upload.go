package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	firstPause = 500 * time.Millisecond // after the first failure; doubles with each
	maxPause   = 30 * time.Second
	maxAsked   = time.Hour // of a Retry-After: the longest that the API's rate limits can ask for
	maxAnswer  = 1 << 20   // bytes read of an answer
)

// upload sends the events of one user.
type upload struct {
	cfg      *Config
	file     *File
	user     *user
	token    string
	shift    int64 // ms
	random   *rand.Rand
	size     int // events in the next batch, at most
	results  *results
	progress progress
}

func newUpload(cfg *Config, f *File, u *user, index int) *upload {
	return &upload{
		cfg: cfg, file: f, user: u, token: cfg.Tokens.of(u.name), size: cfg.BatchSize,
		random: rand.New(rand.NewPCG(cfg.Seed, uint64(index))),
	}
}

// run sends all events, in batches. A 413 halves the batches until one goes through; an event that is refused alone is
// given up and counted, as editors do.
func (u *upload) run(ctx context.Context) error {
	rest := u.user.events
	if u.cfg.Shuffle {
		rest = slices.Clone(rest)
		u.random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	}
	for len(rest) > 0 {
		n := u.next(len(rest))
		got, err := u.send(ctx, rest[:n])
		switch {
		case err != nil:
			return fmt.Errorf("replay user %q: %d of %d events not sent: %w", u.user.name, len(rest), len(u.user.events), err)
		case got == nil && n > 1:
			u.size = n / 2
			continue
		case got == nil:
			u.size = u.cfg.BatchSize
			u.results.update(func(s *Summary) { s.TooLarge++ })
		default:
			u.results.update(func(s *Summary) { got.addTo(s, n) })
		}
		rest = rest[n:]
		u.progress.add(n)
	}
	return nil
}

// next is the size of the next batch when rest events are left.
func (u *upload) next(rest int) int {
	n := min(u.size, rest)
	if u.cfg.Shuffle {
		n = 1 + u.random.IntN(n)
	}
	return n
}

// send posts a batch until the server has decided about it. It returns nil without an error when the batch is too large.
func (u *upload) send(ctx context.Context, events []entry) (*answer, error) {
	body, err := u.file.body(events, u.shift)
	if err != nil {
		return nil, err
	}
	failures := 0
	for tries := 0; ; tries++ {
		res, err := u.post(ctx, body)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		switch {
		case err == nil && res.status/100 == 2:
			return res.decode()
		case err == nil && res.status == http.StatusRequestEntityTooLarge:
			return nil, nil //nolint:nilnil // the third outcome, which the caller handles
		case err == nil && res.busy():
			// Waiting because the server asks for it is no failure: only ctx ends it.
		case err == nil && res.status < 500:
			return nil, res.refusal()
		default:
			if err == nil {
				err = res.refusal()
			}
			if failures++; failures >= u.cfg.Attempts {
				return nil, fmt.Errorf("tried %d times: %w", failures, err)
			}
		}
		if err := u.pause(ctx, res, tries); err != nil {
			return nil, err
		}
	}
}

// pause waits before the next try: as long as the server asks, else twice as long as before, with jitter so that users
// who failed together do not return together.
func (u *upload) pause(ctx context.Context, res *response, tries int) error {
	d := maxPause
	if tries < 10 {
		d = min(firstPause<<tries, maxPause)
	}
	d = d/2 + time.Duration(u.random.Int64N(int64(d/2)))
	if res != nil {
		if asked := res.retryAfter(u.cfg.Clock.Now()); asked > 0 {
			d = min(asked, maxAsked) + time.Duration(u.random.Int64N(int64(firstPause)))
		}
	}
	u.progress.waiting(d)
	return u.cfg.Sleep(ctx, d)
}

func (u *upload) post(ctx context.Context, body []byte) (*response, error) {
	u.results.update(func(s *Summary) { s.Requests++ })
	target := strings.TrimRight(u.cfg.URL, "/") + "/v1/ingest"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+u.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "commma-replay")
	res, err := u.cfg.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err) // whether it was stored is unknown: sending it again is right
	}
	return &response{status: res.StatusCode, header: res.Header, body: text}, nil
}

// response is an HTTP answer, read.
type response struct {
	status int
	header http.Header
	body   []byte
}

// busy is an answer that asks to come again later.
func (r *response) busy() bool {
	return r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
}

// answer is the body of an accepted request.
type answer struct {
	Received  *int `json:"received"`
	Duplicate int  `json:"duplicate"`
	Rejected  []struct {
		Reason string `json:"reason"`
	} `json:"rejected"`
	RejectedTotal int `json:"rejected_total"`
}

func (r *response) decode() (*answer, error) {
	var a answer
	if err := json.Unmarshal(r.body, &a); err != nil || a.Received == nil {
		return nil, fmt.Errorf("the server answered %d, but not as Commma does: is the URL right?", r.status)
	}
	return &a, nil
}

func (a *answer) addTo(s *Summary, events int) {
	s.Sent += events
	s.Received += *a.Received
	s.Duplicate += a.Duplicate
	s.RejectedTotal += a.RejectedTotal
	for _, r := range a.Rejected {
		s.Rejected[r.Reason]++
	}
	if more := a.RejectedTotal - len(a.Rejected); more > 0 {
		s.Rejected["unlisted"] += more
	}
}

// refusal is the error that a status and the API's error envelope make.
func (r *response) refusal() error {
	var envelope struct {
		Error struct{ Code, Message string }
	}
	text := fmt.Sprintf("the server answered %d", r.status)
	if json.Unmarshal(r.body, &envelope) == nil && envelope.Error.Code != "" {
		text += " " + printable(envelope.Error.Code) + ": " + printable(envelope.Error.Message)
	}
	switch r.status {
	case http.StatusUnauthorized:
		text += " (the token is not valid)"
	case http.StatusForbidden:
		text += " (the token's user does not exist any more, or may not upload)"
	}
	return errors.New(text)
}

// printable cuts what a server sent to something fit for a terminal.
func printable(s string) string {
	const longest = 200
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; n > longest || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// retryAfter is how long the server asks to wait, in either form of the header; 0 if it does not.
func (r *response) retryAfter(now time.Time) time.Duration {
	value := strings.TrimSpace(r.header.Get("Retry-After"))
	if s, err := strconv.ParseInt(value, 10, 32); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return at.Sub(now)
	}
	return 0
}
