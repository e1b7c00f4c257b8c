// Package apidocs holds the page that shows the contract to people: Swagger UI (Apache-2.0), taken out of a Go module and so
// pinned with it. All of it is in the binary, and nothing is fetched from elsewhere.
package apidocs

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for the page
	"fmt"
	"io"

	"github.com/swaggest/swgui/v5/static"
)

// Policy is the Content-Security-Policy of the page: it runs and shows what comes from this server, and asks nobody else. Images
// may also be within the styles, as Swagger UI's arrows are.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page is the HTML page. Its links lead from /docs to /docs/NAME and to /openapi.yaml, below whatever prefix a proxy adds.
//
//go:embed index.html
var Page []byte

//go:embed docs.js
var script []byte

// Asset is a file that the page needs.
type Asset struct {
	MIME    string
	Body    []byte
	Gzipped bool // the body is compressed
}

const (
	mimeScript = "text/javascript; charset=utf-8"
	mimeStyle  = "text/css; charset=utf-8"
)

// Lookup is the asset of that name.
func Lookup(name string) (Asset, bool) {
	switch name {
	case "docs.js":
		return Asset{MIME: mimeScript, Body: script}, true
	case "swagger-ui-bundle.js":
		return kept(name, mimeScript)
	case "swagger-ui.css":
		return kept(name, mimeStyle)
	}
	return Asset{}, false
}

// kept is a file of Swagger UI, which the module keeps compressed.
func kept(name, mime string) (Asset, bool) {
	body, err := static.FS.ReadFile(name + ".gz")
	return Asset{MIME: mime, Body: body, Gzipped: true}, err == nil
}

// Plain is the body, not compressed.
func (a Asset) Plain() ([]byte, error) {
	if !a.Gzipped {
		return a.Body, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err != nil {
		return nil, fmt.Errorf("decompress asset: %w", err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("decompress asset: %w", err)
	}
	return plain, nil
}
