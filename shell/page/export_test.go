package page

import (
	"maps"
	"slices"
)

// LeftOut shows tests what the page does not offer, with the reasons.
var LeftOut = leftOut

// An Act is what tests know of an act.
type Act struct{ Request, Form, On, Key, Says, Done string }

// Acts lists what a visitor may do.
func Acts() (out []Act) {
	for _, a := range acts() {
		out = append(out, Act{a.method + " " + a.api, a.pattern(), a.on, a.key(), a.says, a.done})
	}
	return out
}

// Views lists the patterns of the pages that are read.
func Views() (out []string) {
	for _, v := range viewRoutes() {
		out = append(out, v.pattern)
	}
	return out
}

// How pages show durations and ids.
var (
	Roughly   = roughly
	Precisely = precisely
	ShortID   = shortID
)

// Declarations are the paths of the API of what a set of files may own.
var Declarations = slices.Sorted(maps.Keys(declarations))
