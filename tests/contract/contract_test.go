package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"

	apidoc "github.com/commma/commma/api"
)

func load(t *testing.T, text []byte) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	return doc
}

// Every example of a request works, without a token too where none is needed, and its answer is what the document says.
func TestExamples(t *testing.T) {
	t.Parallel()
	s, doc := newStage(t), load(t, apidoc.Document)
	known := map[string]bool{}
	for _, o := range operations(doc) {
		known[o.OperationID] = true
		t.Run(o.OperationID, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, o.lacks(), "%s %s lacks examples in api/openapi.yaml", o.method, o.path)
			for i := range o.bodies() {
				for j := range o.ways() {
					c := s.newCast(t) // anew for each, since it may change everything
					s.play(t, doc, o, o.request(t, c, i), o.token(t, c, j))
				}
			}
		})
	}
	for name := range callers {
		require.True(t, known[name], "callers has an operation that the document lacks: %s", name)
	}
}

// play sends an example and checks the answer.
func (s *stage) play(t *testing.T, doc *openapi3.T, o operation, r request, token string) {
	t.Helper()
	got, valid := s.send(t, doc, o, r, token, "")
	what := fmt.Sprintf("%s %s: %d %s", o.method, r.path, got.status, got.body[:min(len(got.body), 2000)])
	require.Less(t, got.status, 300, what)
	valid.check(t, got, what)

	tag := got.header.Get("ETag")
	if tag == "" {
		return
	}
	again, valid := s.send(t, doc, o, r, token, tag)
	for range 10 { // where all tests run at once, a count or a visit may be left out of an answer, and be in the next
		if again.status != http.StatusOK {
			break
		}
		tag = again.header.Get("ETag")
		again, valid = s.send(t, doc, o, r, token, tag)
	}
	require.Equal(t, http.StatusNotModified, again.status, what)
	require.Equal(t, tag, again.header.Get("ETag"))
	valid.check(t, again, "again, "+what)
}

// send sends an example, after it was held against the document itself.
func (s *stage) send(t *testing.T, doc *openapi3.T, o operation, r request, token, tag string) (answer, validation) {
	t.Helper()
	var body []byte
	if r.body != nil {
		var err error
		body, err = json.Marshal(r.body)
		require.NoError(t, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), o.method, s.url+r.path, bytes.NewReader(body))
	require.NoError(t, err)
	if r.mime != "" {
		req.Header.Set("Content-Type", r.mime)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	v := validation{&openapi3filter.RequestValidationInput{
		Request: req, PathParams: r.parameters,
		Route:   &routers.Route{Spec: doc, Path: o.path, PathItem: o.item, Method: o.method, Operation: o.Operation},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}}
	require.NoError(t, openapi3filter.ValidateRequest(t.Context(), v.RequestValidationInput), "%s %s", o.method, r.path)
	req.Body = io.NopCloser(bytes.NewReader(body))
	return send(t, req), v
}

// validation holds answers against the operation that they are of.
type validation struct {
	*openapi3filter.RequestValidationInput
}

func (v validation) check(t *testing.T, got answer, what string) {
	t.Helper()
	documented := v.Route.Operation.Responses.Status(got.status)
	require.NotNil(t, documented, "status is not documented: %s", what)
	for name := range documented.Value.Headers {
		require.NotEmpty(t, got.header.Values(name), "header %s is missing: %s", name, what)
	}
	for _, name := range []string{"X-Request-Id", "X-Content-Type-Options", "Cache-Control"} {
		require.NotEmpty(t, got.header.Get(name), "header %s is missing: %s", name, what)
	}
	if len(documented.Value.Content) == 0 {
		require.Empty(t, got.body, what)
		return
	}
	format, _, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	require.NoError(t, err, what)
	content := documented.Value.Content.Get(format)
	require.NotNil(t, content, "%s is not documented: %s", format, what)
	v.Options.ExcludeResponseBody = format != "application/json"
	if format == "application/x-ndjson" { // the document has the schema of a line
		for line := range strings.Lines(string(got.body)) {
			var value any
			require.NoError(t, json.Unmarshal([]byte(line), &value), line)
			require.NoError(t, content.Schema.Value.VisitJSON(value), line)
		}
	}
	require.NoError(t, openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: v.RequestValidationInput, Status: got.status, Header: got.header,
		Body: io.NopCloser(bytes.NewReader(got.body)), Options: v.Options,
	}), what)
}

// Nobody adds an operation without examples.
func TestMissingExamplesAreFound(t *testing.T) {
	t.Parallel()
	doc := load(t, []byte(`
openapi: 3.0.3
info: { title: x, version: "1" }
paths:
  /x/{id}:
    post:
      parameters: [{ name: id, in: path, required: true, schema: { type: string } }]
      requestBody: { content: { application/json: { schema: { type: object } } } }
      responses: { "200": { description: x, content: { application/json: { schema: { type: object } } } } }
  /y:
    get: { responses: { "404": { description: x } } }
`))
	missing := map[string][]string{}
	for _, o := range operations(doc) {
		missing[o.path] = o.lacks()
	}
	require.Equal(t, map[string][]string{
		"/x/{id}": {"parameter id", "request as application/json", "answer 200 as application/json"},
		"/y":      {"answer that all is well"},
	}, missing)
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func send(t *testing.T, req *http.Request) answer {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{res.StatusCode, res.Header, body}
}

func (a answer) json(t *testing.T) (v map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}
