package httpapi

import (
	"encoding/json"
	"fmt"

	"github.com/labstack/echo/v4"
)

// What answers say about caching. Nothing that was made for one user may be kept where another could get it.
const (
	cachePrivate = "private, no-cache"
	cachePublic  = "public, no-cache" // may be kept, but must be asked about each time
)

// writeJSON answers with v. It is encoded before anything is sent, so that a failure can still become an error answer.
func writeJSON(c echo.Context, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return c.Blob(status, echo.MIMEApplicationJSON, body)
}
