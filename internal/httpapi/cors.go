package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

const (
	headerLimit     = "X-RateLimit-Limit"
	headerRemaining = "X-RateLimit-Remaining"
	headerReset     = "X-RateLimit-Reset"
)

// exposedHeaders are those that a page of another origin may read beside the few that it always may.
var exposedHeaders = []string{
	headerETag, headerLimit, headerRemaining, headerReset, echo.HeaderRetryAfter, headerRequestID, headerRecorded,
}

// corsMaxAge is how long a browser may take our word for what it may send: as long as any browser does.
const corsMaxAge = 2 * 60 * 60 // seconds

// cors lets pages of the origins read answers. A browser's question beforehand (OPTIONS) is answered here, before anybody is
// admitted or counted; of an origin that is not listed it gets an answer without permission.
//
// Credentials are allowed so that a page that sends everything with credentials works. There are none that a browser would
// add by itself: no cookie means anything here.
func cors(origins []string) echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOriginFunc:  func(origin string) (bool, error) { return slices.Contains(origins, origin), nil },
		AllowMethods:     []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowHeaders:     []string{echo.HeaderAuthorization, echo.HeaderContentType, echo.HeaderContentEncoding, "If-None-Match"},
		AllowCredentials: true,
		ExposeHeaders:    exposedHeaders,
		MaxAge:           corsMaxAge,
	})
}

// ValidateOrigin says what is wrong with an origin: it must be as browsers send it, such as https://commma.dev. There are no
// patterns: whoever may register a name that fits one could read what users see.
func ValidateOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Contains(u.Host, "*") ||
		u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin || hasDefaultPort(u) {
		return fmt.Errorf("%q is no origin as browsers send it: want scheme://host[:port] in lower case, and nothing more", origin)
	}
	return nil
}

// hasDefaultPort says whether a URL names a port that browsers leave out.
func hasDefaultPort(u *url.URL) bool {
	return u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443"
}
