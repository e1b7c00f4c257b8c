package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxTokens bounds a file of tokens, in bytes.
const maxTokens = 64 << 20

// Tokens say by which bearer token a user's events are uploaded.
type Tokens struct {
	all    string
	byUser map[string]string
}

// OneToken is the same token for every user.
func OneToken(token string) Tokens { return Tokens{all: token} }

// ParseTokens reads a token per user: a JSON object {"user":"token"}, or lines of a user and its token with blanks
// between them. Of lines, empty ones and those that begin with # are skipped. Errors never hold a token.
func ParseTokens(r io.Reader) (Tokens, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxTokens+1))
	switch {
	case err != nil:
		return Tokens{}, fmt.Errorf("read tokens: %w", err)
	case len(text) > maxTokens:
		return Tokens{}, fmt.Errorf("read tokens: more than %d bytes", maxTokens)
	}
	t := Tokens{byUser: make(map[string]string)}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		if err := json.Unmarshal(text, &t.byUser); err != nil {
			return Tokens{}, errors.New("read tokens: not a JSON object of user and token")
		}
		return t, nil
	}
	n := 0
	for text := range strings.Lines(string(text)) {
		n++
		fields := strings.Fields(text)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return Tokens{}, fmt.Errorf("read tokens: line %d: want a user and a token", n)
		}
		t.byUser[fields[0]] = fields[1]
	}
	return t, nil
}

// of is the token of a user, or empty.
func (t Tokens) of(user string) string {
	if token := t.byUser[user]; token != "" {
		return token
	}
	return t.all
}
