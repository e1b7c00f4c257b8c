package httpapi

import (
	"encoding/json"
	"net/http"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	apidoc "github.com/commma/commma/api"
	"github.com/commma/commma/internal/httpapi/api"
)

func TestContractIsValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, contract().Validate(t.Context(), openapi3.EnableExamplesValidation()))
}

var pathParameter = regexp.MustCompile(`:([a-z_]+)`)

// A route without a contract, and a contract without a route, are both promises that nobody keeps.
func TestRoutesAreTheContract(t *testing.T) {
	t.Parallel()
	var routes, documented []string
	for _, r := range setup(t, &fake{}).echo.Routes() {
		routes = append(routes, r.Method+" "+pathParameter.ReplaceAllString(r.Path, "{$1}"))
	}
	for path, item := range contract().Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	sort.Strings(routes)
	sort.Strings(documented)
	require.Equal(t, documented, routes)
}

func eachOperation(t *testing.T, fn func(t *testing.T, method, path string, op *openapi3.Operation)) {
	for path, item := range contract().Paths.Map() {
		for method, op := range item.Operations() {
			t.Run(method+" "+path, func(t *testing.T) { fn(t, method, path, op) })
		}
	}
}

func TestOperationsAreDescribed(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, _, _ string, op *openapi3.Operation) {
		require.NotEmpty(t, op.Summary)
		require.NotEmpty(t, op.OperationID)
		for status, r := range op.Responses.Map() {
			require.Equal(t, status == "204" || status == "304", len(r.Value.Content) == 0, status)
			for mime, c := range r.Value.Content {
				require.NotNil(t, c.Example, "%s %s has no example", status, mime)
			}
		}
		if op.RequestBody != nil {
			require.NotNil(t, op.RequestBody.Value.Content.Get("application/json").Example)
		}
		for _, p := range op.Parameters {
			require.NotEmpty(t, p.Value.Description, p.Value.Name)
		}
	})
	for name, s := range contract().Components.Schemas {
		require.NotEmpty(t, s.Value.Description, name)
		for field, p := range s.Value.Properties {
			described := p.Ref != "" || p.Value.Description != "" || p.Value.Items != nil
			require.True(t, described, "%s.%s is not described", name, field)
		}
	}
}

// target is the operation's path with the examples of its parameters.
func target(op *openapi3.Operation, path string) string {
	query := make([]string, 0, len(op.Parameters))
	for _, p := range op.Parameters {
		example, ok := p.Value.Example.(string)
		if !ok {
			continue
		}
		if p.Value.In == openapi3.ParameterInPath {
			path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", example)
			continue
		}
		query = append(query, p.Value.Name+"="+example)
	}
	return path + "?" + strings.Join(query, "&")
}

// Every example of a request works, and every answer is in the form that the contract gives.
func TestExamplesWork(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{job: true})
	eachOperation(t, func(t *testing.T, method, path string, op *openapi3.Operation) {
		body := ""
		if op.RequestBody != nil {
			raw, err := json.Marshal(op.RequestBody.Value.Content.Get("application/json").Example)
			require.NoError(t, err)
			body = string(raw)
		}
		got := b.call(t, method, target(op, path), body, signedIn())
		require.Less(t, got.status, 300, got.body)
	})
}

// secured says whether an operation needs a token, or takes one.
func secured(op *openapi3.Operation) (needs, takes bool) {
	for _, requirement := range *op.Security {
		if len(requirement) > 0 {
			takes = true
		}
	}
	return takes && len(*op.Security) == 1, takes
}

// Who forgets to admit in a new handler finds out here.
func TestSecuredRoutesRefuse(t *testing.T) {
	t.Parallel()
	b := setup(t, &fake{})
	eachOperation(t, func(t *testing.T, method, path string, op *openapi3.Operation) {
		needs, takes := secured(op)
		if needs {
			got := b.call(t, method, target(op, path), "")
			got.requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
		}
		if takes {
			got := b.call(t, method, target(op, path), "", withHeader("Authorization", "Bearer wrong"))
			got.requireError(t, http.StatusUnauthorized, api.ErrorCodeUnauthorized)
			require.Equal(t, "Bearer", got.header.Get("WWW-Authenticate"))
		}
	})
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	got := setup(t, &fake{}).call(t, http.MethodGet, "/openapi.yaml", "")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, string(apidoc.Document), got.body)
}

func TestInstantForm(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(api.Instant(testNow))
	require.NoError(t, err)
	require.Equal(t, `"2026-06-17T09:30:00.123Z"`, string(raw), "always three decimals, cut off")
	var back api.Instant
	require.NoError(t, json.Unmarshal([]byte(`"2026-06-17T11:30:00.000+02:00"`), &back))
	require.Equal(t, "2026-06-17T09:30:00.000Z", back.String())
	require.Error(t, json.Unmarshal([]byte(`"yesterday"`), &back))
}
