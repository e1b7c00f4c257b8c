package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	apidoc "github.com/commma/commma/api"
	"github.com/commma/commma/internal/httpapi/apidocs"
)

// GetOpenAPI serves the contract that the binary was built from.
func (h *handlers) GetOpenAPI(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderCacheControl, cachePublic)
	return writeTagged(c, "application/yaml", apidoc.Document)
}

// GetDocs serves the contract as a page to read, which also sends requests.
func (h *handlers) GetDocs(c echo.Context) error {
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, cachePublic)
	header.Set(echo.HeaderContentSecurityPolicy, apidocs.Policy)
	header.Set(echo.HeaderReferrerPolicy, "no-referrer")
	return writeTagged(c, echo.MIMETextHTMLCharsetUTF8, apidocs.Page)
}

// GetDocsAsset serves a file that the page needs.
func (h *handlers) GetDocsAsset(c echo.Context, name string) error {
	asset, ok := apidocs.Lookup(name)
	if !ok {
		return echo.ErrNotFound
	}
	header, body := c.Response().Header(), asset.Body
	header.Set(echo.HeaderCacheControl, cachePublic)
	if asset.Gzipped && acceptsGzip(c.Request().Header) {
		header.Set(echo.HeaderContentEncoding, "gzip")
	} else {
		var err error
		if body, err = asset.Plain(); err != nil {
			return err
		}
	}
	return writeTagged(c, asset.MIME, body)
}

// acceptsGzip says whether a request accepts gzip by name. It is for files that are kept compressed; all else is compressed
// in one place, see compress.
func acceptsGzip(h http.Header) bool {
	for _, line := range h.Values(echo.HeaderAcceptEncoding) {
		for coding := range strings.SplitSeq(line, ",") {
			name, weight, weighted := strings.Cut(coding, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return !weighted || err != nil || q > 0
		}
	}
	return false
}
