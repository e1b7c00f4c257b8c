package httpapi

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/commma/commma/internal/httpapi/apidocs"
)

var pageLink = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// The page finds all that it names on this server, and is allowed nothing else.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	got := b.call(t, http.MethodGet, "/docs", "")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "text/html; charset=UTF-8", got.header.Get("Content-Type"))
	policy := got.header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	for _, loose := range []string{"unsafe", "http", "*"} {
		require.NotContains(t, policy, loose)
	}
	links := pageLink.FindAllStringSubmatch(got.body, -1)
	require.Len(t, links, 5)
	for _, link := range links {
		if link[1] == "data:," {
			continue
		}
		linked := b.call(t, http.MethodGet, "/"+link[1], "")
		require.Equal(t, http.StatusOK, linked.status, link[1])
	}
	require.Contains(t, b.call(t, http.MethodGet, "/docs/docs.js", "").body, `url: "openapi.yaml"`)
}

func TestDocsAssets(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	for name, mime := range map[string]string{"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css", "docs.js": "text/javascript"} {
		plain := b.call(t, http.MethodGet, "/docs/"+name, "")
		require.Equal(t, http.StatusOK, plain.status)
		require.True(t, strings.HasPrefix(plain.header.Get("Content-Type"), mime))
		for _, coding := range []string{"gzip;q=0", "br", "gzip"} {
			got := b.raw(t, "/docs/"+name, accept(coding))
			if got.header.Get("Content-Encoding") == "gzip" {
				require.Equal(t, "gzip", coding)
				got.body = gunzip(t, got.body)
			}
			require.Equal(t, plain.body, got.body)
		}
	}
	asset, _ := apidocs.Lookup("swagger-ui.css")
	require.Equal(t, string(asset.Body), b.raw(t, "/docs/swagger-ui.css", accept("gzip")).body, "it goes out as it is kept")
	for _, name := range []string{"swagger-ui.js", "..%2Fdocs.js", "docs.js.gz", ""} {
		require.Equal(t, http.StatusNotFound, b.raw(t, "/docs/"+name).status, name)
	}
}
