// Package fileerr says what is wrong with a file that people write, and where.
package fileerr

import (
	"errors"
	"fmt"
	"strings"
)

// Error is one thing that is wrong with a file, and where.
type Error struct {
	File    string `json:"file"`
	Line    int    `json:"line"`            // from 1
	Column  int    `json:"column"`          // from 1, in characters
	Field   string `json:"field,omitempty"` // such as pipelines.build.phases[3].run
	Problem string `json:"problem"`         // and what would be right
}

// Error is file:line:column: field: problem.
func (e Error) Error() string {
	at := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field != "" {
		at += e.Field + ": "
	}
	return at + e.Problem
}

// Errors are all that is wrong with a file, in the order in which it stands
// there.
type Errors []Error

// Error has a line for each.
func (es Errors) Error() string {
	lines := make([]string, 0, len(es))
	for _, e := range es {
		lines = append(lines, e.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each of them.
func (es Errors) Unwrap() []error {
	out := make([]error, 0, len(es))
	for _, e := range es {
		out = append(out, e)
	}
	return out
}

// Within reports whether a field is another one, or a part of it.
func Within(field, of string) bool {
	rest, ok := strings.CutPrefix(field, of)
	return ok && of != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// All gives the errors of a file that an error holds; none where it holds none.
func All(err error) []Error {
	es, _ := errors.AsType[Errors](err)
	return es
}
