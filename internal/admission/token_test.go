package admission

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	token, other := NewToken(id), NewToken(id)
	require.NotEqual(t, token, other)
	require.NotEqual(t, HashToken(token), HashToken(other))
	got, err := ParseToken(token)
	require.NoError(t, err)
	require.Equal(t, id, got)

	h := HashToken(token)
	require.True(t, h.equal(h[:]))
	require.False(t, h.equal(nil))
	require.False(t, h.equal(h[:31]))
	changed := HashToken(token)
	changed[31] ^= 1
	require.False(t, h.equal(changed[:]))
}

func TestParseTokenRefuses(t *testing.T) {
	t.Parallel()
	good := NewToken(uuid.New())
	body := strings.TrimPrefix(good, "cmm_")
	for _, token := range []string{
		"", "cmm_", body, "CMM_" + body, "cmm-" + body, " " + good, good + " ", good + "=", good[:len(good)-1], good + "A",
		"cmm_" + strings.Repeat("+", 64), "cmm_" + strings.Repeat("\n", 64), "cmm_" + body[:62] + "\r\n", "Bearer " + good,
		"cmm_" + strings.Repeat("\x00", 64), "cmm_" + strings.Repeat("é", 32),
	} {
		_, err := ParseToken(token)
		require.Error(t, err, "%q", token)
		if len(token) > 10 {
			require.NotContains(t, err.Error(), token)
		}
	}
}

// Whatever is accepted is the only spelling of what it says.
func FuzzParseToken(f *testing.F) {
	f.Add(NewToken(uuid.New()))
	f.Add("cmm_" + strings.Repeat("A", 64))
	f.Add("cmm_" + strings.Repeat("A", 60) + "\n\n\n\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		id, err := ParseToken(token)
		if err != nil {
			require.Equal(t, uuid.Nil, id)
			return
		}
		b, err := base64.RawURLEncoding.DecodeString(token[len(tokenPrefix):])
		require.NoError(t, err)
		require.Equal(t, id[:], b[:16])
		require.Equal(t, token, tokenPrefix+base64.RawURLEncoding.EncodeToString(b))
	})
}
