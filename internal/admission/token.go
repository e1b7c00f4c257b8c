package admission

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/google/uuid"
)

// A token is the prefix and, in base64url without padding, the user's id and a random secret. Carrying the id is what
// lets an admission ask Redis for everything at once.
const (
	tokenPrefix  = "cmm_"
	secretBytes  = 32
	decodedBytes = 16 + secretBytes
)

var encodedLen = base64.RawURLEncoding.EncodedLen(decodedBytes)

// errMalformedToken deliberately says nothing about the token.
var errMalformedToken = errors.New("malformed token")

// Hash is the SHA-256 of a token: all that is stored of it.
type Hash [sha256.Size]byte

// HashToken is the hash under which a token is stored.
func HashToken(token string) Hash { return sha256.Sum256([]byte(token)) }

// equal compares in constant time. Bytes of another length are not equal.
func (h Hash) equal(stored []byte) bool { return subtle.ConstantTimeCompare(h[:], stored) == 1 }

// NewToken is a new random token of the user. It is shown once; only its hash is kept.
func NewToken(userID uuid.UUID) string {
	var b [decodedBytes]byte
	copy(b[:], userID[:])
	_, _ = rand.Read(b[len(userID):]) // never fails: the runtime ends the process instead
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// ParseToken reads the user's id from a well-formed token. Whether the token is good is another question.
func ParseToken(token string) (uuid.UUID, error) {
	encoded, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok || len(encoded) != encodedLen {
		return uuid.UUID{}, errMalformedToken
	}
	// The decoder passes over line breaks, so the length of what it found is checked too.
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(b) != decodedBytes {
		return uuid.UUID{}, errMalformedToken
	}
	return uuid.UUID(b[:16]), nil
}
