package groups

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest name, in code points.
const maxName = 80

// cleanName makes one line of plain text: blanks of all kinds, line ends too, become single spaces, none at the ends, and
// characters that show nothing or turn the text around them go. Whoever shows it must escape it. It fails with ErrBadName.
func cleanName(text string) (string, error) {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	if n := utf8.RuneCountInString(text); n < 1 || n > maxName {
		return "", ErrBadName
	}
	return text, nil
}
