package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// document is what the tests look at of openapi.json.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas   map[string]schema `json:"schemas"`
		Responses map[string]struct {
			Description string `json:"description"`
		} `json:"responses"`
	} `json:"components"`
}

type operation struct {
	Security   *[]any                      `json:"security"`
	Parameters []struct{ Name, In string } `json:"parameters"`
	Responses  map[string]json.RawMessage  `json:"responses"`
	Body       *struct{}                   `json:"requestBody"`
}

type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Format     string            `json:"format"`
	Enum       []string          `json:"enum"`
	Items      *schema           `json:"items"`
	Values     json.RawMessage   `json:"additionalProperties"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
}

func readDocument(t *testing.T) *document {
	t.Helper()
	d := &document{}
	if err := json.Unmarshal(openapiText, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// schemaTypes are the types that go to and fro.
var schemaTypes = []any{
	Submission{}, Query{}, Worker{}, Task{}, Operator{}, Plan{}, Loss{}, Alert{}, Edit{}, Dropped{}, QueryList{}, Setting{}, SetResult{},
	Event{}, EventData{}, Rule{}, RuleParam{}, RuleList{}, Health{}, Live{}, Diagnostic{}, Failure{}, Error{},
}

// TestOpenAPIRoutes: the description has all routes and no others, and says which need a token and which are
// for the leader.
func TestOpenAPIRoutes(t *testing.T) {
	d := readDocument(t)
	described := map[string]bool{}
	for path, methods := range d.Paths {
		for method := range methods {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	all := slices.Concat(routes, []route{{method: "GET", path: metricsPath, anywhere: true}})
	for _, r := range all {
		name := r.method + " " + r.path
		if !described[name] {
			t.Errorf("%s is not described", name)
		}
		delete(described, name)
		op := d.Paths[r.path][strings.ToLower(r.method)]
		if open := op.Security != nil; open != r.open {
			t.Errorf("%s: open %v, described %v", name, r.open, open)
		}
		if _, moves := op.Responses["307"]; moves == r.anywhere {
			t.Errorf("%s: for the leader alone %v, described %v", name, !r.anywhere, moves)
		}
		named := slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.Name == "name" && p.In == "path" })
		if named != strings.Contains(r.path, "{name}") {
			t.Errorf("%s: parameter name described %v", name, named)
		}
		var params []string
		for _, p := range op.Parameters {
			if p.In == "query" {
				params = append(params, p.Name)
			}
		}
		if !slices.Equal(params, r.params) {
			t.Errorf("%s: parameters %q, described %q", name, r.params, params)
		}
	}
	for name := range described {
		t.Errorf("%s is described, and there is no such route", name)
	}
}

// TestOpenAPITypes: the description has all fields of all types with their types, and no others.
func TestOpenAPITypes(t *testing.T) {
	d := readDocument(t)
	left := maps.Clone(d.Components.Schemas)
	for _, v := range schemaTypes {
		typ := reflect.TypeOf(v)
		s, ok := left[typ.Name()]
		if !ok {
			t.Errorf("%s is not described", typ.Name())
			continue
		}
		delete(left, typ.Name())
		compareType(t, typ, s)
	}
	for name := range left {
		t.Errorf("%s is described, and there is no such type", name)
	}
}

func compareType(t *testing.T, typ reflect.Type, s schema) {
	t.Helper()
	var required []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p, ok := s.Properties[name]
		if !ok {
			t.Errorf("%s.%s is not described", typ.Name(), name)
			continue
		}
		delete(s.Properties, name)
		if got, want := p.text(), typeText(f.Type); got != want {
			t.Errorf("%s.%s is %s, described as %s", typ.Name(), name, want, got)
		}
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	for name := range s.Properties {
		t.Errorf("%s.%s is described, and there is no such field", typ.Name(), name)
	}
	slices.Sort(required)
	slices.Sort(s.Required)
	if !slices.Equal(required, s.Required) {
		t.Errorf("%s: always there are %v, described %v", typ.Name(), required, s.Required)
	}
}

func (s *schema) text() string {
	switch {
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, "#/components/schemas/")
	case s.Items != nil:
		return "[]" + s.Items.text()
	case s.Format != "":
		return s.Format
	}
	var values schema
	if json.Unmarshal(s.Values, &values) == nil && values.Type != "" {
		return "map of " + values.text()
	}
	return s.Type
}

func typeText(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Time]():
		return "date-time"
	case reflect.TypeFor[Code]():
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeText(t.Elem())
	case reflect.Slice:
		return "[]" + typeText(t.Elem())
	case reflect.Map:
		return "map of " + typeText(t.Elem())
	case reflect.Struct:
		return t.Name()
	case reflect.Int, reflect.Int64:
		return "int64"
	case reflect.Bool:
		return "boolean"
	}
	return t.Kind().String()
}

// TestOpenAPIValues: the description has all states, types of events and codes, and no others.
func TestOpenAPIValues(t *testing.T) {
	d := readDocument(t)
	var all []string
	for code, c := range codes {
		all = append(all, string(code))
		if text := string(code) + ": " + strconv.Itoa(c.status); !strings.Contains(d.Components.Responses["Failure"].Description, text) {
			t.Errorf("%q is not described", text)
		}
		if c.means == "" || http.StatusText(c.status) == "" {
			t.Errorf("code %s: %+v", code, c)
		}
	}
	for name, want := range map[string][]string{"Query.state": States, "Edit.state": EditStates, "Event.type": EventTypes, "Error.code": all} {
		typ, field, _ := strings.Cut(name, ".")
		got := slices.Sorted(slices.Values(d.Components.Schemas[typ].Properties[field].Enum))
		if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, described %v", name, want, got)
		}
	}
}
