// Package inherit says what a program gets of this process's environment.
package inherit

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// caseless says whether the names of variables ignore case.
const caseless = runtime.GOOS == "windows"

// Environ gives the variables of this process whose names are listed, as
// "NAME=value"; see [Listed].
func Environ(names []string) []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !Listed(names, name)
	})
}

// Listed reports whether a variable is in a list of names. A listed name that ends
// with * stands for all names that begin so.
func Listed(names []string, name string) bool {
	return slices.ContainsFunc(names, func(listed string) bool {
		if prefix, ok := strings.CutSuffix(listed, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == listed || caseless && strings.EqualFold(name, listed)
	})
}
