package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
)

// What answers say about caching. Nothing that was made for one user may be kept where another could get it.
const (
	cachePrivate = "private, no-cache"
	cachePublic  = "public, no-cache" // may be kept, but must be asked about each time: a change of mode must show at once
	cacheNever   = "no-store"         // what is answered before anybody has decided otherwise
)

// writeJSON answers with v. It is encoded before anything is sent, so that a failure can still become an error answer.
func writeJSON(c echo.Context, status int, v any) error {
	answer, err := encode(v)
	if err != nil {
		return err
	}
	if status == http.StatusOK && isTagged(c) {
		basis := answer
		if of := c.Get(keyTagBasis); of != nil {
			if basis, err = encode(of); err != nil {
				return err
			}
		}
		return writeTaggedBy(c, echo.MIMEApplicationJSON, answer, basis)
	}
	// Said here, because an answer that is sent off before its handler ends would otherwise have no end until then.
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(answer)))
	return c.Blob(status, echo.MIMEApplicationJSON, answer)
}

func encode(v any) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	// Escaped for HTML, a path full of < would be six times as long as it was sent. Nobody takes JSON for HTML: all
	// answers say nosniff.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}
