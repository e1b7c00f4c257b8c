package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
)

const headerETag = "ETag"

const (
	// keyTagged marks a request whose answer gets a tag; see tagAnswer.
	keyTagged = "commma.tagged"
	// keyTagBasis holds what the tag is made of in place of the answer; see tagAnswerBy.
	keyTagBasis = "commma.tag-basis"
)

// tagAnswer has writeJSON give the answer a tag, by which whoever kept it can ask whether it is still the same. It is for
// reads that hold no paths: nobody is meant to keep what holds them.
//
// A tag is made of the whole answer, after the request was admitted, counted and served. So it cannot say "still the same"
// of what a change of mode has changed, a page that is asked about counts as looked at, and the limit is as true as on a page
// that is sent.
func tagAnswer(c echo.Context) { c.Set(keyTagged, true) }

// tagAnswerBy has the tag made of basis, which is the answer without what differs from one moment to the next though nothing
// has happened. Whether there is a tag is for tagAnswer to say.
func tagAnswerBy(c echo.Context, basis any) { c.Set(keyTagBasis, basis) }

func isTagged(c echo.Context) bool { return c.Get(keyTagged) != nil }

// writeTagged answers with body and its tag, or says that the client has it already.
func writeTagged(c echo.Context, mime string, body []byte) error {
	return writeTaggedBy(c, mime, body, body)
}

// writeTaggedBy is writeTagged with a tag made of basis.
func writeTaggedBy(c echo.Context, mime string, body, basis []byte) error {
	h, tag := c.Response().Header(), tagOf(basis)
	h.Set(headerETag, tag)
	if holds(c.Request().Header, tag) {
		return c.NoContent(http.StatusNotModified)
	}
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	return c.Blob(http.StatusOK, mime, body)
}

// tagBytes of a hash are enough that no two answers ever share a tag.
const tagBytes = 16

// tagOf is the tag of a body. It is weak, since the same tag stands for the compressed body and the plain one.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:tagBytes]) + `"`
}

// holds says whether a request names the tag among those that it has, compared weakly (RFC 9110, 13.1.2). Tags of others may
// hold commas, and are then cut into pieces of which none is a tag of ours.
func holds(h http.Header, tag string) bool {
	ours := strings.TrimPrefix(tag, "W/")
	for _, line := range h.Values("If-None-Match") {
		for theirs := range strings.SplitSeq(line, ",") {
			theirs = strings.TrimSpace(theirs)
			if theirs == "*" || strings.TrimPrefix(theirs, "W/") == ours {
				return true
			}
		}
	}
	return false
}
