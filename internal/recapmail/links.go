package recapmail

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/google/uuid"

	"github.com/commma/commma/internal/store/dbsqlc"
)

// ErrBadLink means that a token is not one that we made.
var ErrBadLink = errors.New("not a link of ours")

// UnsubscribePath is where the links lead, below the base URL.
const UnsubscribePath = "/v1/recap/unsubscribe"

// A token is the user's id and a part of its HMAC-SHA-256. It has no end: a link in an old mail must work. It lets its
// bearer stop mails and nothing else. The key is in Postgres, made once by whoever needs it first, so that jobs and servers
// need no setting in common.
const (
	keyPurpose = "recap-unsubscribe"
	keyBytes   = 32
	idBytes    = 16
	macBytes   = 16
)

// Links makes and checks the links of mails. It is safe for concurrent use.
type Links struct {
	db  dbsqlc.DBTX
	mu  sync.Mutex
	key []byte
}

// NewLinks makes Links over a pool.
func NewLinks(db dbsqlc.DBTX) *Links { return &Links{db: db} }

// URL is the link by which a user stops the mails; base is the API's, without a slash at its end.
func (l *Links) URL(ctx context.Context, base string, userID uuid.UUID) (string, error) {
	token, err := l.token(ctx, userID)
	if err != nil {
		return "", err
	}
	return base + UnsubscribePath + "?token=" + url.QueryEscape(token), nil
}

func (l *Links) token(ctx context.Context, userID uuid.UUID) (string, error) {
	key, err := l.signingKey(ctx)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(userID[:], mac(key, userID)...)), nil
}

// Check says whether a token is good. It fails with ErrBadLink.
func (l *Links) Check(ctx context.Context, token string) error {
	_, err := l.parse(ctx, token)
	return err
}

// Unsubscribe stops the mails of the user of a token; again, or for a user who is gone, it changes nothing. It fails with
// ErrBadLink.
func (l *Links) Unsubscribe(ctx context.Context, token string) error {
	userID, err := l.parse(ctx, token)
	if err != nil {
		return err
	}
	if err := dbsqlc.New().RecapMailUnsubscribe(ctx, l.db, userID); err != nil {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	return nil
}

func (l *Links) parse(ctx context.Context, token string) (uuid.UUID, error) {
	if len(token) != base64.RawURLEncoding.EncodedLen(idBytes+macBytes) {
		return uuid.Nil, ErrBadLink
	}
	// The decoder passes over line breaks, so the length of what it found is checked too.
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != idBytes+macBytes {
		return uuid.Nil, ErrBadLink
	}
	key, err := l.signingKey(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	userID := uuid.UUID(raw[:idBytes])
	if !hmac.Equal(raw[idBytes:], mac(key, userID)) {
		return uuid.Nil, ErrBadLink
	}
	return userID, nil
}

func mac(key []byte, userID uuid.UUID) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(keyPurpose))
	h.Write(userID[:])
	return h.Sum(nil)[:macBytes]
}

// signingKey reads the key, having made it where there is none. Of two who make one at a time both get the first.
func (l *Links) signingKey(ctx context.Context) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key != nil {
		return l.key, nil
	}
	fresh := make([]byte, keyBytes)
	_, _ = rand.Read(fresh) // never fails: the runtime ends the process instead
	q := dbsqlc.New()
	if err := q.SigningKeyInsert(ctx, l.db, keyPurpose, fresh); err != nil {
		return nil, fmt.Errorf("make signing key: %w", err)
	}
	key, err := q.SigningKeyGet(ctx, l.db, keyPurpose)
	if err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	l.key = key
	return key, nil
}
