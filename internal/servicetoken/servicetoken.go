// Package servicetoken makes, lists, revokes and checks the tokens of jobs: programs that belong to no user and may do
// what their token's scopes say, and nothing else. A token is random; only its SHA-256 is stored, by which it is looked up
// each time, so that a revoked one is refused from that moment on. Its form is another than that of users' tokens: neither
// can be taken for the other.
package servicetoken

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/commma/commma/internal/store"
	"github.com/commma/commma/internal/store/dbsqlc"
)

// Scope is something that a token may do.
type Scope string

// ScopeRecaps is to read the recaps of all users.
const ScopeRecaps Scope = "recaps"

// Scopes are all scopes.
var Scopes = []Scope{ScopeRecaps}

// What goes wrong with tokens. None of the errors repeats one.
var (
	ErrUnknown   = errors.New("no such token, or it was revoked")
	ErrScope     = errors.New("the token may not do this")
	ErrNameTaken = errors.New("there is a token of this name, or was one: choose another")
	ErrBadName   = errors.New("a name has 1 to 64 letters, digits, dots, hyphens and underscores")
	ErrBadScope  = errors.New("unknown scope: there is recaps")
)

// Prefix is what all tokens begin with.
const Prefix = "cmms_"

const secretBytes = 32

var (
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	encodedLen = base64.RawURLEncoding.EncodedLen(secretBytes)
)

// Token is what is told of a token: never the token itself.
type Token struct {
	Name      string     `json:"name"`
	Scopes    []string   `json:"scopes"`
	CreatedAt time.Time  `json:"created_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

// Create makes a token. It is returned here and nowhere else.
func Create(ctx context.Context, db dbsqlc.DBTX, name string, scopes []Scope) (string, error) {
	if !nameForm.MatchString(name) {
		return "", ErrBadName
	}
	texts := make([]string, 0, len(scopes))
	for _, s := range scopes {
		if !slices.Contains(Scopes, s) {
			return "", ErrBadScope
		}
		texts = append(texts, string(s))
	}
	if len(texts) == 0 {
		return "", ErrBadScope
	}
	var secret [secretBytes]byte
	_, _ = rand.Read(secret[:]) // never fails: the runtime ends the process instead
	token := Prefix + base64.RawURLEncoding.EncodeToString(secret[:])
	err := dbsqlc.New().ServiceTokenInsert(ctx, db, dbsqlc.ServiceTokenInsertParams{Name: name, TokenHash: hash(token), Scopes: texts})
	if store.IsUniqueViolation(err) {
		return "", ErrNameTaken
	}
	if err != nil {
		return "", fmt.Errorf("insert token: %w", err)
	}
	return token, nil
}

// List is all tokens by name, the revoked ones too.
func List(ctx context.Context, db dbsqlc.DBTX) ([]Token, error) {
	rows, err := dbsqlc.New().ServiceTokenList(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	tokens := make([]Token, len(rows))
	for i, r := range rows {
		tokens[i] = Token(r)
	}
	return tokens, nil
}

// Revoke ends a token for good; again changes nothing. It fails with ErrUnknown.
func Revoke(ctx context.Context, db dbsqlc.DBTX, name string) error {
	n, err := dbsqlc.New().ServiceTokenRevoke(ctx, db, name)
	if err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	if n == 0 {
		return ErrUnknown
	}
	return nil
}

// Is says whether a text has the form of a token.
func Is(token string) bool {
	encoded, ok := strings.CutPrefix(token, Prefix)
	return ok && len(encoded) == encodedLen
}

// Check asks whether a token is good and may do something. It fails with ErrUnknown or ErrScope.
func Check(ctx context.Context, db dbsqlc.DBTX, token string, need Scope) error {
	if !Is(token) {
		return ErrUnknown
	}
	scopes, err := dbsqlc.New().ServiceTokenGetScopes(ctx, db, hash(token))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrUnknown
	case err != nil:
		return fmt.Errorf("read token: %w", err)
	case !slices.Contains(scopes, string(need)):
		return ErrScope
	}
	return nil
}

// hash needs no salt: what is hashed is random.
func hash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
