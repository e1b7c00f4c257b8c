package groups

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCleanName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Compiler friends": "Compiler friends", "  a \t\n b\u2028c ": "a b c", "a\x00\x1bb": "ab", "<b>&\"": "<b>&\"",
		"\u202eevil\u200b": "evil", "\xff": "\uFFFD", "ünïcödé 🦀": "ünïcödé 🦀", strings.Repeat("é", 80): strings.Repeat("é", 80),
	} {
		got, err := cleanName(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", " \n", "\u200b\x00", strings.Repeat("é", 81)} {
		_, err := cleanName(text)
		require.ErrorIs(t, err, ErrBadName, "%q", text)
	}
}
