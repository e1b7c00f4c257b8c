package engagement

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBody is the longest comment, in code points.
const maxBody = 2000

// maxBodyBytes is the longest text that is looked at. What is cleaned away does not count, but has to be read.
const maxBodyBytes = 64 << 10

// cleanBody makes plain text of what was sent: line ends become \n, other control characters but tabs go, and so does blank
// space at both ends. The rest is kept as it is: whoever shows it must escape it. It fails with ErrBadBody.
func cleanBody(text string) (string, error) {
	if len(text) > maxBodyBytes {
		return "", ErrBadBody
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\r', r == '\u2028', r == '\u2029':
			return '\n'
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), isBidiControl(r):
			return -1
		}
		return r
	}, text)
	text = strings.TrimSpace(text)
	if n := utf8.RuneCountInString(text); n < 1 || n > maxBody {
		return "", ErrBadBody
	}
	return text, nil
}

// isBidiControl says whether a character makes the text around it run the other way, beyond its own end: embeddings, overrides
// and isolates, https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters.
func isBidiControl(r rune) bool {
	return r >= '\u202A' && r <= '\u202E' || r >= '\u2066' && r <= '\u2069'
}
