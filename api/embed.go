// Package api holds the contract of the HTTP interface. The Go types and the server interface in internal/httpapi/api
// are generated from it, and the server serves it.
package api

import _ "embed" // for the document

// Document is openapi.yaml, as it was when the binary was built.
//
//go:embed openapi.yaml
var Document []byte
