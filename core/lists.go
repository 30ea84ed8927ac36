package core

import (
	"maps"
	"slices"
)

// without gives the list without one element; none is nil.
func without[E any](s []E, i int) []E {
	if len(s) <= 1 {
		return nil
	}
	return slices.Concat(s[:i], s[i+1:])
}

// nilIfEmpty gives a list or a map of n entries as it is; nil if n is 0.
func nilIfEmpty[T any](v T, n int) T {
	if n == 0 {
		var none T
		return none
	}
	return v
}

// appendLast gives the list with one more element; of a list that is longer than most, its
// last elements.
func appendLast[E any](s []E, most int, e E) []E {
	return slices.Concat(s[max(len(s)+1-most, 0):], []E{e})
}

// set overwrites a value, unless the one for it is nil.
func set[T any](dst, v *T) {
	if v != nil {
		*dst = *v
	}
}

// sortedKeys gives the keys of a map in their order.
func sortedKeys[V any](m map[string]V) []string {
	// order-free: sorted below
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys
}

// howMany counts what is the case.
func howMany(cases ...bool) int {
	n := 0
	for _, is := range cases {
		if is {
			n++
		}
	}
	return n
}
