// Package openapi writes the description of the HTTP API (OpenAPI 3.1): what routes there
// are and what a person says about them stands in api.yaml, the schemas of the bodies come
// from the Go types that the server encodes and decodes.
//
// In api.yaml
//
//   - an operation names the statuses by which it can fail only if they differ from those
//     that follow from its shape: 400, 401, 403 and 503 for all, 404 if the path has a
//     parameter, 409 unless it is a GET, 408, 413 and 415 if a body is read;
//   - an answer is a list of its schema and its description, or the whole of it;
//   - a property of a schema is its description, or what is added to its Go type: bounds,
//     enumerations, examples; if it says the type itself, that replaces the derived one. A
//     schema that is like another one has what is said of the other one's properties.
package openapi
