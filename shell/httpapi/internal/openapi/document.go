// Package openapi writes the description of the HTTP API (OpenAPI 3.1): what routes there
// are and what a person says about them stands in api.yaml, the schemas of the bodies come
// from the Go types that the server encodes and decodes.
//
// In api.yaml
//
//   - an operation names the statuses by which it can fail only if they differ from those
//     that follow from its shape: 400, 401, 403 and 503 for all, 404 and 410 if the path has a
//     parameter, 409 unless it is a GET, 422 if it takes an Idempotency-Key, 408, 413 and 415 if a body is read;
//   - an answer is a list of its schema and its description, or the whole of it;
//   - a property of a schema is its description, or what is added to its Go type: bounds,
//     enumerations, examples; if it says the type itself, that replaces the derived one. A
//     schema that is like another one has what is said of the other one's properties.
package openapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed api.yaml
var described []byte

// description is what api.yaml says.
type description struct {
	Info            map[string]any
	SecuritySchemes map[string]any `yaml:"securitySchemes"`
	Security, Tags  []any
	NeverNull       []string `yaml:"never_null"` // names of times
	Operations      []operation
	Failures        map[int]failure
	Parameters      map[string]any
	Schemas         map[string]map[string]any
}

// An operation is one method of one path.
type operation struct {
	Route, ID, Tag, Summary, Description string

	Security    *[]any
	Parameters  []string
	Body        any  // the name of its schema, or the whole of the request's body
	Optional    bool // the body may be left out
	Answers     map[int]any
	Also, Never []int // statuses of failures beside, or but for, the usual ones
	Revised     bool  // what it shows or changes has a revision
}

// A failure is the answer by which operations fail with one status.
type failure struct {
	Name, Description string
	Headers           map[string]any
}

// Document writes the description of the API.
func Document() ([]byte, error) {
	var d description
	dec := yaml.NewDecoder(bytes.NewReader(described))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("api.yaml: %w", err)
	}
	paths := &ordered{}
	for _, o := range d.Operations {
		method, path, _ := strings.Cut(o.Route, " ")
		methods, ok := paths.values[path].(*ordered)
		if !ok {
			methods = &ordered{}
			paths.set(path, methods)
		}
		described, err := d.operation(o, method, path)
		if err != nil {
			return nil, fmt.Errorf("api.yaml: %s: %w", o.Route, err)
		}
		methods.set(strings.ToLower(method), described)
	}
	schemas, err := d.schemas()
	if err != nil {
		return nil, err
	}
	responses := make(map[string]any)
	for _, f := range d.Failures {
		r := map[string]any{"description": f.Description, "content": jsonContent(ref("schemas", "Error"))}
		if f.Headers != nil {
			r["headers"] = f.Headers
		}
		responses[f.Name] = r
	}
	return []byte(encode(map[string]any{
		"openapi": "3.1.0", "info": d.Info, "security": d.Security, "tags": d.Tags, "paths": paths,
		"components": map[string]any{
			"securitySchemes": d.SecuritySchemes, "parameters": d.Parameters, "responses": responses, "schemas": schemas,
			"headers": map[string]any{"replayed": map[string]any{
				"description": "true: it was carried out before under its Idempotency-Key, and this is what it was answered then.", "schema": map[string]any{"type": "string", "const": "true"},
			}},
		},
	}, "") + "\n"), nil
}

func (d *description) operation(o operation, method, path string) (any, error) {
	out := map[string]any{"operationId": o.ID, "tags": []any{o.Tag}, "summary": o.Summary}
	if o.Description != "" {
		out["description"] = o.Description
	}
	if o.Security != nil {
		out["security"] = *o.Security
	}
	if len(o.Parameters) > 0 {
		var list []any
		for _, name := range o.Parameters {
			list = append(list, ref("parameters", name))
		}
		out["parameters"] = list
	}
	switch body := o.Body.(type) {
	case nil:
	case string:
		out["requestBody"] = map[string]any{"required": !o.Optional, "content": jsonContent(ref("schemas", body))}
	default:
		out["requestBody"] = body
	}
	if o.Revised && method != http.MethodGet {
		list, _ := out["parameters"].([]any)
		out["parameters"] = append(list, ref("parameters", "if_match"), ref("parameters", "if_none_match"), ref("parameters", "take_over"))
		o.Also = append(slices.Clone(o.Also), http.StatusPreconditionFailed)
	}
	if o.repeatable(method) {
		list, _ := out["parameters"].([]any)
		out["parameters"] = append(list, ref("parameters", "idempotency_key"))
	}
	responses := &ordered{}
	for _, status := range slices.Sorted(maps.Keys(o.Answers)) {
		a, err := answer(status, o.Answers[status])
		if err != nil {
			return nil, err
		}
		shown, ok := a.(map[string]any)
		if ok && o.Revised && shown["content"] != nil {
			setHeader(shown, "ETag", map[string]any{
				"description": "The revision of what is shown, for If-Match. It changes with each edit.", "schema": map[string]any{"type": "string"},
			})
		}
		if ok && o.repeatable(method) {
			setHeader(shown, "Idempotency-Replayed", ref("headers", "replayed"))
		}
		responses.set(strconv.Itoa(status), a)
	}
	for _, status := range o.failures(method, path) {
		f, ok := d.Failures[status]
		if !ok {
			return nil, fmt.Errorf("failures have no %d", status)
		}
		responses.set(strconv.Itoa(status), ref("responses", f.Name))
	}
	out["responses"] = responses
	return out, nil
}

// repeatable reports whether the operation takes a key under which it is carried out once.
func (o operation) repeatable(method string) bool {
	return method != http.MethodGet && (o.Security == nil || len(*o.Security) > 0)
}

// failures lists the statuses by which an operation can fail.
func (o operation) failures(method, path string) []int {
	list := append([]int{http.StatusForbidden}, o.Also...)
	if o.Security == nil || len(*o.Security) > 0 {
		list = append(list, http.StatusBadRequest, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	}
	if o.repeatable(method) {
		list = append(list, http.StatusUnprocessableEntity)
	}
	if strings.Contains(path, "{") {
		list = append(list, http.StatusNotFound, http.StatusGone)
	}
	if method != http.MethodGet { // each of them reads a body, at least to refuse it
		list = append(list, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(status int) bool { return slices.Contains(o.Never, status) })
}

// setHeader says that an answer may have a header.
func setHeader(answer map[string]any, name string, header any) {
	headers, ok := answer["headers"].(map[string]any)
	if !ok {
		headers = make(map[string]any)
		answer["headers"] = headers
	}
	headers[name] = header
}

// answer is what an operation gives: a description, a schema and a description, or all of it.
func answer(status int, v any) (any, error) {
	switch v := v.(type) {
	case string:
		return map[string]any{"description": v}, nil
	case []any:
		if len(v) != 2 {
			return nil, fmt.Errorf("answer %d: want [SCHEMA, DESCRIPTION], got %v", status, v)
		}
		out := map[string]any{"description": v[1], "content": jsonContent(ref("schemas", fmt.Sprint(v[0])))}
		if status == http.StatusCreated {
			out["headers"] = map[string]any{"Location": map[string]any{
				"description": "The path of what was created.", "schema": map[string]any{"type": "string"},
			}}
		}
		return out, nil
	}
	return v, nil
}

func jsonContent(schema any) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": schema}}
}

// schemas joins the derived schemas with what api.yaml says of them.
func (d *description) schemas() (map[string]any, error) {
	from := newSchemas(d.NeverNull)
	out := make(map[string]any)
	for name, said := range d.Schemas {
		if Types[name] == nil {
			out[name] = said
		}
	}
	for name, t := range Types {
		schema, err := from.object(name, t)
		if err != nil {
			return nil, err
		}
		fields, _ := schema["properties"].(*ordered)
		for key, said := range d.Schemas[name] {
			if key != "properties" && key != "like" {
				schema[key] = said
			}
		}
		for key, said := range d.properties(name) {
			field, ok := fields.values[key].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("api.yaml: schema %s: %s has no field %q", name, t, key)
			}
			fields.set(key, join(field, said))
		}
		out[name] = schema
	}
	return out, nil
}

// properties lists what api.yaml says of the fields of a schema, and of one that it is like.
func (d *description) properties(name string) map[string]any {
	out := make(map[string]any)
	if like, ok := d.Schemas[name]["like"].(string); ok {
		for _, p := range properties(Types[name]) {
			if said := d.properties(like)[p.name]; said != nil {
				out[p.name] = said
			}
		}
	}
	own, _ := d.Schemas[name]["properties"].(map[string]any)
	maps.Copy(out, own)
	return out
}

// join adds to a derived schema what is said of it; a type that is said replaces the derived one.
func join(derived map[string]any, said any) map[string]any {
	m, ok := said.(map[string]any)
	if !ok {
		m = map[string]any{"description": said}
	}
	for _, replaced := range []string{"type", "$ref", "oneOf"} {
		if m[replaced] != nil {
			return m
		}
	}
	out := maps.Clone(derived)
	maps.Copy(out, m)
	return out
}
