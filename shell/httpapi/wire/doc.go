// Package wire has the bodies of the HTTP API's requests and answers, as its server and
// its clients share them. openapi.json describes each of them under the name of its type.
//
// A request leaves out the fields that have their zero value, except those that must be
// given; a field is a pointer if the server tells "left out" from an empty value. An answer
// has all of its fields.
package wire
