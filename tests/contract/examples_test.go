package contract

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// operation is one of the document, by its names.
type operation struct {
	*openapi3.Operation
	method, path string
	item         *openapi3.PathItem
}

func operations(doc *openapi3.T) (list []operation) {
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			list = append(list, operation{op, method, path, item})
		}
	}
	return list
}

// lacks says which examples an operation has not: of what it must be sent, and of what it answers when all is well.
func (o operation) lacks() (missing []string) {
	for _, p := range o.Parameters {
		if p.Value.Required && len(examplesOf(p.Value.Example, p.Value.Examples)) == 0 {
			missing = append(missing, "parameter "+p.Value.Name)
		}
	}
	if o.RequestBody != nil {
		for mime, content := range o.RequestBody.Value.Content {
			if len(examplesOf(content.Example, content.Examples)) == 0 {
				missing = append(missing, "request as "+mime)
			}
		}
	}
	well := 0
	for _, status := range slices.Sorted(maps.Keys(o.Responses.Map())) {
		r := o.Responses.Value(status)
		if strings.HasPrefix(status, "2") {
			well++
		}
		for mime, content := range r.Value.Content {
			if len(examplesOf(content.Example, content.Examples)) == 0 {
				missing = append(missing, "answer "+status+" as "+mime)
			}
		}
	}
	if well == 0 {
		missing = append(missing, "answer that all is well")
	}
	return missing
}

// examplesOf are the values of example, or of examples by their names.
func examplesOf(example any, examples openapi3.Examples) (values []any) {
	if example != nil {
		return []any{example}
	}
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		values = append(values, examples[name].Value.Value)
	}
	return values
}

// request is an example, with what it names in place.
type request struct {
	path       string // with its query
	parameters map[string]string
	mime       string
	body       any // nil for none
}

// bodies are as many as an operation has examples of a request.
func (o operation) bodies() int { return max(1, len(o.bodyExamples())) }

type bodyExample struct {
	mime  string
	value any
}

func (o operation) bodyExamples() (list []bodyExample) {
	if o.RequestBody == nil {
		return nil
	}
	for _, mime := range slices.Sorted(maps.Keys(o.RequestBody.Value.Content)) {
		content := o.RequestBody.Value.Content[mime]
		for _, value := range examplesOf(content.Example, content.Examples) {
			list = append(list, bodyExample{mime, value})
		}
	}
	return list
}

// request is an operation's i-th example of a body, with the first of each parameter.
func (o operation) request(t *testing.T, c *cast, i int) request {
	t.Helper()
	r := request{path: o.path, parameters: map[string]string{}}
	query := url.Values{}
	for _, p := range o.Parameters {
		values := examplesOf(p.Value.Example, p.Value.Examples)
		if len(values) == 0 {
			continue
		}
		value := text(t, c.cast(t, values[0]))
		switch p.Value.In {
		case openapi3.ParameterInPath:
			r.path = strings.ReplaceAll(r.path, "{"+p.Value.Name+"}", url.PathEscape(value))
			r.parameters[p.Value.Name] = value
		case openapi3.ParameterInQuery:
			query.Set(p.Value.Name, value)
		}
	}
	if len(query) > 0 {
		r.path += "?" + query.Encode()
	}
	if bodies := o.bodyExamples(); len(bodies) > 0 {
		r.mime, r.body = bodies[i].mime, c.cast(t, bodies[i].value)
	}
	return r
}

// text is a parameter's value as it is written into a URL.
func text(t *testing.T, value any) string {
	t.Helper()
	if s, ok := value.(string); ok {
		return s
	}
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	return string(raw)
}

// cast puts what is there in the place of what stands for it.
func (c *cast) cast(t *testing.T, value any) any {
	t.Helper()
	switch v := value.(type) {
	case string:
		if stand, ok := stands[v]; ok {
			return stand(t, c)
		}
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = c.cast(t, v[i])
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key := range v {
			object[key] = c.cast(t, v[key])
		}
		return object
	}
	return value
}

// ways are as many as an operation may be asked in: with a token, without one.
func (o operation) ways() int {
	if o.Security == nil {
		return 1
	}
	return max(1, len(*o.Security))
}

// token is the i-th way; "" is none.
func (o operation) token(t *testing.T, c *cast, i int) string {
	t.Helper()
	if o.Security == nil || len(*o.Security) == 0 || len((*o.Security)[i]) == 0 {
		return ""
	}
	if caller := callers[o.OperationID]; caller != nil {
		return caller(t, c)
	}
	return c.demo.Token
}
